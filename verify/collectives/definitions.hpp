/// What each collective is defined to do, and what of it does not hold.
#pragma once

#include <functional>

#include <truestep/verify/collectives/reduction.hpp>

#include "join.hpp"

namespace truestep::verify::collectives {

using Members = std::vector<Member>;

[[nodiscard]] bool is_reduction(const Call& call);
[[nodiscard]] const std::string& type_of(const Call& call);
[[nodiscard]] Index values_in(const std::vector<Shape>& shapes);

/// Holds the calls of one group to their definitions; what does not hold goes into the verdict.
class Definitions {
  public:
    Definitions(Verdict& verdict, const std::vector<int>& ranks) : verdict_(verdict), ranks_(ranks) {}

    Finding& add(const std::string& kind, const Member& first, const std::string& what,
                 std::vector<int> ranks);
    /// One call of all ranks. True if its values were compared with its definition.
    bool check(const Members& members, Verdict::Count& count);
    /// A part arrives as it was sent: whole fingerprints are compared, whatever the sample is.
    bool arrived(const Member& sender, std::size_t given, const Member& receiver, std::size_t taken);
    void check_memory(const Member& member);
    /// Where nobody saw the op: a call that is another than all the rest of its place in the program. Many
    /// are needed to know what is usual.
    void check_places();

  private:
    /// Says which part of each rank's input a part of a rank's result is of.
    using PartOf = std::function<std::size_t(std::size_t part, std::size_t receiver)>;
    struct Reduced {
        Member member;
        bool sum;
    };

    bool check_copies(const Members& members);
    bool check_reduction(const Members& members, const std::vector<std::size_t>& receivers,
                         Verdict::Count& count, const PartOf& part_of);
    bool judge(const Members& members, const Member& to, std::size_t part, const Type& type,
               const Explanation& explanation, Verdict::Count& count);
    bool check_moved(const Members& members);
    void compare_values(Finding& finding, const Member& right, const Operands& expected, std::size_t a,
                        const Member& wrong, std::size_t b);

    Verdict& verdict_;
    const std::vector<int>& ranks_;
    std::map<std::tuple<std::string, std::string, Index, std::vector<std::string>>, std::vector<Reduced>>
        places_;
};

} // namespace truestep::verify::collectives
