// Reading and writing traces of SCAPE and AdamS (section 9).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/problem/sample.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/trace/writer.hpp>
#include <truestep/verify/scape/results.hpp>

namespace truestep::verify::scape {

/// The part of a run that a trace holds.
struct Extent {
    problem::Sample sample; ///< the segments that it holds; empty: all
    Index begin = 0;        ///< the steps taken before its first one

    friend bool operator==(const Extent&, const Extent&) = default;
};

/// The initial state besides the parameters, if steps had been taken before. AdamS has only the
/// moment.
struct InitialState {
    std::vector<float> first_moment;
    std::vector<std::vector<float>> residual; ///< by rank
    std::vector<std::uint8_t> mask;           ///< in flight, as bits
};

/// The data of a trace before its first step (section 9).
struct TraceHead {
    std::string source;                ///< who made it, and how
    problem::Problem problem;          ///< of the part that the trace holds
    std::vector<double> learning_rate; ///< of step t and parameter group i of G: entry (t-1)*G + i
    std::vector<double> density; ///< entry t-1 belongs to the mask used at step t; one more than steps
    std::vector<float> initial_parameters;
    Extent extent = {};
    std::optional<problem::Problem> sampled = {}; ///< the whole, if this is a sample
    std::vector<double> norm =
        {}; ///< of the whole mean gradient before clipping, one per step, for a clipped sample
    std::vector<int> exponent = {}; ///< E of a payload of e5m2, one per step, if the trace holds it

    [[nodiscard]] const problem::Problem& whole() const { return sampled ? *sampled : problem; }
    [[nodiscard]] problem::DensitySchedule schedule() const {
        return problem::DensitySchedule::recorded(density, extent.begin);
    }
    [[nodiscard]] Index steps() const {
        return static_cast<Index>(learning_rate.size()) / whole().layout.param_groups();
    }
    [[nodiscard]] std::optional<double> norm_at(Index step) const {
        return norm.empty() ? std::nullopt : std::optional(norm[static_cast<std::size_t>(step - 1)]);
    }
    [[nodiscard]] std::optional<int> exponent_at(Index step) const {
        return exponent.empty() ? std::nullopt
                                : std::optional(exponent[static_cast<std::size_t>(step - 1)]);
    }
    [[nodiscard]] problem::LearningRates rates(Index step) const {
        const Index groups = whole().layout.param_groups();
        const auto first = learning_rate.begin() + (step - 1) * groups;
        return problem::LearningRates(std::vector<double>(first, first + groups));
    }
};

/// Reads a trace of SCAPE or AdamS, step by step. All errors are truestep::Error, one line that
/// begins with the path.
class TraceReader : public trace::Reader {
  public:
    explicit TraceReader(const std::filesystem::path& path);

    [[nodiscard]] const TraceHead& head() const { return head_; }
    [[nodiscard]] std::vector<float> gradient(Index step, int rank) const {
        return input(gradient_kind, step, rank);
    }
    /// The state with which it begins, if steps had been taken before; a window selects its part.
    [[nodiscard]] InitialState initial_state(Part part = {}) const;

  private:
    void check_initial_state() const;

    TraceHead head_;
};

/// One rank's own copy of results that must be the same on all ranks, in a trace's form: masks as
/// bits.
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
    /// `intermediates` adds local, exchanged and reconstructed. With one rank there are no
    /// replicas. `initial` is for traces that begin after some steps.
    TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                trace::Replicas replicas = trace::Replicas::none, const InitialState& initial = {});

    /// The steps in their order. A refused step has no intermediates: they are written as zeros. `own`:
    /// each rank's replica, or nothing where all ranks have what `results` says.
    void write_step(const PerRank<float>& gradients, const StepResults<float>& results,
                    const std::vector<Replica>& own = {});
    void finish() { file_.finish(); }

  private:
    TraceHead head_;
    trace::Writer file_;
};

/// The problem as the trace's metadata `config` holds it, and back. `what` begins the error's line.
[[nodiscard]] std::string config_text(const problem::Problem& problem, Index steps,
                                      const Extent& extent = {});
struct Config {
    problem::Problem problem; ///< the whole
    Index steps;
    Extent extent = {};
};
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);

/// A trace of a sample must record the norm, because a sample's own norm is not that of the whole.
[[nodiscard]] inline bool needs_norm(const problem::Problem& problem, const Extent& extent) {
    return !extent.sample.empty() && problem.settings.clip_norm > 0.0;
}

/// The same holds for the scale of e5m2, and a first scale depends on the step before.
[[nodiscard]] inline bool needs_exponent(const problem::Problem& problem, const Extent& extent) {
    return problem::format_of(problem.settings.payload) == problem::Payload::e5m2 &&
           (!extent.sample.empty() || extent.begin > 0);
}

/// The schema of a trace of this problem, which is the whole one.
[[nodiscard]] trace::Schema schema(const problem::Problem& problem, Index steps, const Extent& extent = {});
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);

} // namespace truestep::verify::scape
