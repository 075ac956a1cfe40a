#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <scape/problem/problem.hpp>
#include <scape/storage/safetensors.hpp>
#include <scape/verify/results.hpp>

namespace scape::verify {

using storage::DataType;
using storage::SafetensorsFile;
using storage::SafetensorsWriter;
using storage::TensorEntry;

/// What a trace says before its first step (section 9).
struct TraceHead {
    std::string source; ///< who made it, and how
    problem::Problem problem;
    std::vector<double> learning_rate; ///< one per step
    std::vector<double> density; ///< entry t-1 belongs to the mask used at step t; one more than steps
    std::vector<float> initial_parameters;

    [[nodiscard]] Index steps() const { return static_cast<Index>(learning_rate.size()); }
};

/// All that a trace holds at one step of a result that has to be the same on all ranks.
template <class Element>
struct Replicated {
    std::optional<std::vector<Element>> shared;             ///< recorded once, for all ranks
    std::vector<std::vector<Element>> copies;               ///< each rank's own: all, or none
    std::optional<std::vector<std::uint64_t>> fingerprints; ///< of each rank's own
};

/// How many results, over all steps, a trace holds in which way.
struct ReplicaCounts {
    Index copies = 0;
    Index fingerprints = 0;
    Index once = 0; ///< neither of them
};

/// A scape-trace of version 1, read step by step. All errors are scape::Error, one line that begins with
/// the path.
class TraceReader {
  public:
    explicit TraceReader(const std::filesystem::path& path);

    [[nodiscard]] const TraceHead& head() const { return head_; }
    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

    [[nodiscard]] std::vector<float> gradient(Index step, int rank) const;
    /// A result that the trace does not hold is absent; of one that has to be the same on all ranks it is
    /// rank 0's copy where the trace holds copies only. Not for masks.
    [[nodiscard]] std::optional<std::vector<float>> values(const ResultKind& kind, Index step,
                                                           int rank) const;
    [[nodiscard]] std::optional<std::vector<std::uint8_t>> mask(const ResultKind& kind, Index step) const;

    /// Not for masks, and for masks; both for what has to be the same on all ranks.
    [[nodiscard]] Replicated<float> replicated_values(const ResultKind& kind, Index step) const;
    [[nodiscard]] Replicated<std::uint8_t> replicated_mask(const ResultKind& kind, Index step) const;
    [[nodiscard]] const ReplicaCounts& replica_counts() const { return replica_counts_; }

    /// Does every step hold the state that the next begins with: parameters, moment, residuals?
    [[nodiscard]] bool states_recorded() const;
    /// Tensors that this reader has no use for: a misspelt result would be among them.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
    /// Results that the trace does not hold here, but for another step or rank.
    [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

  private:
    void examine_tensors();
    /// Checks the copies and the fingerprints of one result; their names become known. Any of the result?
    bool examine_replicas(const ResultKind& kind, Index step, std::set<std::string>& known);
    /// The tensor that stands for all ranks: the one without a rank, or rank 0's; empty if there is none.
    [[nodiscard]] std::string representative(const ResultKind& kind, Index step, int rank) const;
    template <class Element, class Read>
    [[nodiscard]] Replicated<Element> replicated(const ResultKind& kind, Index step,
                                                 const Read& read) const;

    SafetensorsFile file_;
    TraceHead head_;
    std::vector<std::string> unknown_;
    std::vector<std::string> missing_;
    ReplicaCounts replica_counts_;
};

/// One rank's own copy of what has to be the same on all ranks, as a trace holds it: masks in bits.
struct Replica {
    std::vector<std::uint8_t> mask;
    std::vector<std::uint8_t> next_mask;
    Vector<float> first_moment;
    Vector<float> parameters;

    [[nodiscard]] const std::vector<std::uint8_t>& mask_of(Result result) const {
        return result == Result::mask ? mask : next_mask;
    }
    [[nodiscard]] const Vector<float>& values(Result result) const {
        return result == Result::first_moment ? first_moment : parameters;
    }
};

/// Writes a trace step by step. finish() makes the file appear.
class TraceWriter {
  public:
    /// `intermediates`: also local, exchanged and reconstructed. One rank alone has no replicas.
    TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                Replicas replicas = Replicas::none);

    /// The steps in their order. A refused step has no intermediates: they are written as zeros. `own`:
    /// each rank's replica, or nothing where all ranks have what `results` says.
    void write_step(const PerRank<float>& gradients, const StepResults<float>& results,
                    const std::vector<Replica>& own = {});
    void finish();

  private:
    [[nodiscard]] bool writes(const ResultKind& kind) const;
    /// One of its results, or a rank's copy of it, by name.
    [[nodiscard]] std::vector<std::string> names(const ResultKind& kind, Index step) const;
    void declare();

    TraceHead head_;
    bool intermediates_;
    Replicas replicas_;
    Index step_ = 0;
    SafetensorsWriter file_;
    std::vector<std::pair<std::string, std::vector<std::uint8_t>>>
        masks_; ///< written last, so floats stay aligned
    std::vector<std::pair<std::string, std::vector<std::uint64_t>>>
        fingerprints_; ///< written between the two
};

/// The problem as the trace's metadata `config` holds it, and back. `what` begins the error's line.
[[nodiscard]] std::string config_text(const problem::Problem& problem, Index steps);
struct Config {
    problem::Problem problem;
    Index steps;
};
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);

} // namespace scape::verify
