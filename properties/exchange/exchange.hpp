// The parts of the gate of exchanges: its case, the closed form of what arrives, and what is seen of a
// rank.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/gate/case_spec.hpp>
#include <truestep/gate/group_implementation.hpp>
#include <truestep/problem/data.hpp>

namespace truestep::properties::exchange {

using distributed::Piece;
using distributed::Stretch;
using distributed::Traffic;
using problem::Index;

/// An exchange goes one of these ways to the ranks of the group.
enum class Way : std::uint8_t { plain, pieces, disturbed, groups, peers };

/// One rank does this otherwise than the others, in the last exchange of a case.
enum class Fault : std::uint8_t {
    size,
    traffic,
    operation,
    drops,
    leaves,
    throws,
    aborts,
    hangs,
    takes_nothing
};

/// A case draws random numbers for each of these.
enum class For : std::uint64_t { sizes, bytes, plans, groups, messages, waits, disturbances, faults };

/// A few small numbers from which all exchanges and their bytes follow.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Index exchanges = 1;
    Index workers = 2;
    Index bytes = 4;   ///< of the largest part
    Index at_once = 1; ///< exchanges under way
    Way way = Way::plain;
    Fault fault = Fault::size; ///< only the property `faults` has it happen
    Index seed = 0;

    /// A random number for that use at these places of the case.
    [[nodiscard]] std::uint64_t random(For use, std::initializer_list<std::uint64_t> places = {}) const;
};

/// Whether the faulty rank neither ends nor waits, so that the others have to give up.
[[nodiscard]] inline bool others_give_up(const Case& run) {
    return run.fault == Fault::hangs || run.fault == Fault::takes_nothing;
}

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several ranks", 60, [](const Case& run) { return run.workers > 1; }},
    {"several at once", 50, [](const Case& run) { return run.at_once > 1 && run.exchanges > 1; }},
    {"of peers", 8, [](const Case& run) { return run.way == Way::peers; }},
    {"a rank hangs", 8, others_give_up}};

/// The settings of a case, which a line has as "exchanges=3,workers=2,bytes=40,at_once=1,way=plain,seed=7".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

enum class Operation : std::uint8_t {
    all_to_all,
    to_owners,
    stretches,
    all_gather,
    gather_in_place,
    reduce_scatter,
    records
};

using Buffer = std::vector<std::uint8_t>;
using Record = std::array<std::uint8_t, 12>; ///< of Operation::records

[[nodiscard]] inline std::size_t index(int rank) {
    return static_cast<std::size_t>(rank);
}

/// One exchange of a case, as all ranks know it.
struct Plan {
    Operation operation{};
    Traffic traffic{};
    Piece piece{};                             ///< of an exchange to owners
    std::vector<std::size_t> sizes{};          ///< of whole parts, by owner, for such an exchange
    std::vector<std::vector<Stretch>> to{};    ///< by sender and receiver: in the sender's buffer
    std::vector<std::vector<Stretch>> place{}; ///< by receiver and sender: in the receiver's buffer

    [[nodiscard]] std::size_t ranks() const { return to.size(); }
    [[nodiscard]] std::size_t sent_by(std::size_t rank) const;
    [[nodiscard]] std::size_t received_by(std::size_t rank) const;
};

/// In a received buffer, where nothing comes.
constexpr std::uint8_t untouched = 0xEE;

[[nodiscard]] Plan plan_of(const Case& run, std::size_t number);
/// The buffer that a rank sends from in that exchange.
[[nodiscard]] Buffer buffer_of(const Case& run, const Plan& plan, std::size_t number, std::size_t rank);
/// The buffer that a rank holds after it.
[[nodiscard]] Buffer arrives(const Case& run, const Plan& plan, std::size_t number, std::size_t rank);

/// The sizes of the groups of a case whose way is `groups`.
[[nodiscard]] std::vector<int> groups_of(const Case& run);
/// The ranks of the communicator of a case whose way is `peers`; the others have no part in it.
[[nodiscard]] std::vector<int> members_of(const Case& run);

/// One message of a case between two ranks.
struct Message {
    int from = 0;
    int to = 0;
    Traffic traffic{};
    bool dropped = false; ///< the receiver never looks at it
    Buffer bytes;
};
[[nodiscard]] Message message_of(const Case& run, std::size_t number);

/// The traffic of one rank to others, by kind.
struct Sent {
    distributed::Bytes bytes{};
    distributed::Bytes exchanges{};
    distributed::Bytes messages{};
};
/// The closed form of the traffic of a rank in these exchanges.
[[nodiscard]] Sent sent_in(const Case& run, std::size_t rank, std::size_t begin, std::size_t end);

/// What is seen of one rank.
struct Seen {
    std::vector<Buffer> received{}; ///< by exchange or message
    Sent first_half{};              ///< counted before a reset
    Sent second_half{};
    std::uint64_t kept = 0;      ///< sent messages that were never let go
    std::vector<char> ended{};   ///< the text with which it ended
    std::vector<char> printed{}; ///< by all ranks, on the terminal: rank 0 has it

    void fields(auto& visit) { visit(received, first_half, second_half, kept, ended, printed); }
};

class Implementation final : public gate::GroupImplementation<gate::Implementation> {
  public:
    /// With that known bug, or without any for 0.
    Implementation(const std::string& name, int known_bug, std::shared_ptr<const gate::Group> group)
        : GroupImplementation(name, std::move(group)), known_bug_(known_bug) {}

    /// What each rank saw, the same everywhere.
    [[nodiscard]] std::vector<Seen> exchanges(const Case& run) const;
    [[nodiscard]] std::vector<Seen> messages(const Case& run) const;
    /// The group has to be one of threads: elsewhere a fault ends the job.
    [[nodiscard]] std::vector<Seen> faults(const Case& run) const;

  private:
    /// What all ranks saw, with the known bug in it.
    [[nodiscard]] std::vector<Seen> shared(const Case& run, std::vector<Seen> mine) const;

    int known_bug_;
};

/// The properties, which must always hold (section 43).
[[nodiscard]] std::vector<gate::Property> properties();

[[nodiscard]] std::vector<problem::KnownBug> known_bugs();
/// Changes what a rank saw to what it would have seen with that known bug.
void plant(int known_bug, const Case& run, std::size_t rank, Seen& seen);

/// Plays all exchanges of a case on one rank.
void play_exchanges(const Case& run, distributed::Communicator& ranks, Seen& seen);

/// A last message, of rank 0 to rank 1, before rank 0 leaves with this reason.
constexpr std::string_view last_words = "on purpose";
[[nodiscard]] inline Buffer last_message() {
    return {1, 2, 3, 4, 5};
}

/// The rank that a case's fault is of, the one that notices it first, and one that depends on that one; -1
/// if there is none.
[[nodiscard]] int faulty(const Case& run);
[[nodiscard]] int witness(const Case& run);
[[nodiscard]] int dependent(const Case& run);
[[nodiscard]] Traffic faulty_traffic(const Case& run);
/// If a rank hangs, these exchanges come before: a communicator uses the memory of past ones again.
constexpr int earlier_exchanges = 3;
constexpr Traffic earlier_traffic = Traffic::mask;
/// What the faulty rank sends in place of faulty_traffic().
[[nodiscard]] Traffic other_traffic(const Case& run);
/// The bytes that each rank awaits of each, and those that the faulty one sends to the witness.
[[nodiscard]] std::size_t awaited_size(const Case& run);
[[nodiscard]] std::size_t other_size(const Case& run);
/// The text with which the faulty rank ends, if it ends by an error of its own.
[[nodiscard]] std::string reason_of(const Case& run);
constexpr std::chrono::milliseconds short_patience{100}; ///< with a rank that hangs
/// Texts of which a rank has to be told one; "" for a rank that comes to its end.
[[nodiscard]] std::vector<std::string> texts_for(const Case& run, int rank);
/// Lines that the report about a rank that hangs has to have.
[[nodiscard]] std::vector<std::string> lines_about(const Case& run);

} // namespace truestep::properties::exchange
