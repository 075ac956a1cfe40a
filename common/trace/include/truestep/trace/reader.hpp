#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/bundle.hpp>
#include <truestep/trace/schema.hpp>

namespace truestep::trace {

/// Everything that a trace holds at one step of a result that must be the same on all ranks.
template <class Element>
struct ReplicatedValues {
    std::optional<std::vector<Element>> shared;             ///< recorded once, for all ranks
    std::vector<std::vector<Element>> copies;               ///< each rank's own: of all ranks, or none
    std::optional<std::vector<std::uint64_t>> fingerprints; ///< of each rank's own
};

/// The number of results, over all steps, that a trace holds in each way.
struct ReplicaCounts {
    Index copies = 0;
    Index fingerprints = 0;
    Index once = 0; ///< neither of the two
};

/// Coordinates of the model, [begin, end).
struct Window {
    Index begin = 0;
    Index end = 0;

    [[nodiscard]] Index size() const { return end - begin; }
    friend bool operator==(const Window&, const Window&) = default;
};

/// Reads a scape-trace of version 1, step by step. All errors are truestep::Error, one line that
/// begins with the path.
class Reader {
  public:
    /// `path` is a file, or the common name of the ranks' files (Bundle). `schema_of` reads the
    /// config; its second argument begins an error's line.
    Reader(const std::filesystem::path& path,
           const std::function<Schema(const std::string& config, const std::string& what)>& schema_of);

    [[nodiscard]] const Schema& schema() const { return schema_; }
    [[nodiscard]] const std::string& source() const { return file_.source(); } ///< who made it, and how
    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

    /// Is there such a tensor?
    [[nodiscard]] bool holds(const std::string& tensor) const { return file_.holds(tensor); }

    /// The whole series, by its type.
    [[nodiscard]] std::vector<double> series_f64(const std::string& name) const;
    /// Here and below, a window selects that part of a vector; of a mask it selects the bits,
    /// renumbered from 0.
    using Part = std::optional<Window>;
    [[nodiscard]] std::vector<float> series_f32(const std::string& name, Part part = {}) const;
    [[nodiscard]] std::vector<std::uint8_t> series_u8(const std::string& name, Part part = {}) const;

    [[nodiscard]] std::vector<float> input(const Kind& kind, Index step, int rank, Part part = {}) const;
    /// A result that the trace does not hold is absent. If a replicated result is recorded as
    /// copies only, this returns rank 0's. Not for masks.
    [[nodiscard]] std::optional<std::vector<float>> values(const Kind& kind, Index step, int rank,
                                                           Part part = {}) const;
    [[nodiscard]] std::optional<std::vector<std::uint8_t>> mask(const Kind& kind, Index step,
                                                                Part part = {}) const;

    /// A replicated result, first for vectors, then for masks.
    [[nodiscard]] ReplicatedValues<float> replicated_values(const Kind& kind, Index step,
                                                            Part part = {}) const;
    [[nodiscard]] ReplicatedValues<std::uint8_t> replicated_mask(const Kind& kind, Index step,
                                                                 Part part = {}) const;
    [[nodiscard]] const ReplicaCounts& replica_counts() const { return replica_counts_; }

    /// Does every step hold the state with which the next begins: all results but masks and
    /// intermediates?
    [[nodiscard]] bool states_recorded() const;
    /// Tensors that this reader does not use, such as a misspelt result.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
    /// Results that the trace lacks here but holds for another step or rank.
    [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

  private:
    void examine_tensors();
    /// Checks a result's copies and fingerprints, and adds their names to `known`. Returns whether
    /// there are any.
    bool examine_replicas(const Kind& kind, Index step, std::set<std::string>& known);
    [[nodiscard]] std::vector<float> floats(const std::string& tensor, const Part& part) const;
    [[nodiscard]] std::vector<std::uint8_t> bits(const std::string& tensor, const Part& part) const;
    void expect_vector(const std::string& tensor, const Kind& kind) const;
    /// The tensor that represents all ranks: the one without a rank, or rank 0's; empty if there is
    /// none.
    [[nodiscard]] std::string representative(const Kind& kind, Index step, int rank) const;
    template <class Element, class Read>
    [[nodiscard]] ReplicatedValues<Element> replicated(const Kind& kind, Index step,
                                                       const Read& read) const;

    Bundle file_;
    Schema schema_;
    std::vector<std::string> unknown_;
    std::vector<std::string> missing_;
    ReplicaCounts replica_counts_;
};

/// Throws truestep::Error for the first invalid entry of a series. `begin` is the index of the
/// first of these values.
template <class Value, class IsRight>
void check_entries(const Reader& trace, const std::string& series, const std::vector<Value>& values,
                   const IsRight& is_right, const std::string& wanted, Index begin = 0) {
    const auto wrong = std::ranges::find_if_not(values, is_right);
    if (wrong != values.end())
        throw Error(trace.path().string() + ": " + series + ", entry " +
                    std::to_string(begin + (wrong - values.begin())) + ", is " + shortest(*wrong) +
                    "; it must be " + wanted);
}

} // namespace truestep::trace
