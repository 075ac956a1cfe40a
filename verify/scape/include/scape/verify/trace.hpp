#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
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

/// A scape-trace of version 1, read step by step. All errors are scape::Error, one line that begins with
/// the path.
class TraceReader {
  public:
    explicit TraceReader(const std::filesystem::path& path);

    [[nodiscard]] const TraceHead& head() const { return head_; }
    [[nodiscard]] const std::filesystem::path& path() const { return file_.path(); }

    [[nodiscard]] std::vector<float> gradient(Index step, int rank) const;
    /// A result that the trace does not hold is absent. Not for masks.
    [[nodiscard]] std::optional<std::vector<float>> values(const ResultKind& kind, Index step,
                                                           int rank) const;
    [[nodiscard]] std::optional<std::vector<std::uint8_t>> mask(const ResultKind& kind, Index step) const;

    /// Does every step hold the state that the next begins with: parameters, moment, residuals?
    [[nodiscard]] bool states_recorded() const;
    /// Tensors that this reader has no use for: a misspelt result would be among them.
    [[nodiscard]] const std::vector<std::string>& unknown() const { return unknown_; }
    /// Results that the trace does not hold here, but for another step or rank.
    [[nodiscard]] const std::vector<std::string>& missing() const { return missing_; }

  private:
    void examine_tensors();

    SafetensorsFile file_;
    TraceHead head_;
    std::vector<std::string> unknown_;
    std::vector<std::string> missing_;
};

/// Writes a trace step by step. finish() makes the file appear.
class TraceWriter {
  public:
    /// `intermediates`: also local, exchanged and reconstructed.
    TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates);

    /// The steps in their order. A refused step has no intermediates: they are written as zeros.
    void write_step(const PerRank<float>& gradients, const StepResults<float>& results);
    void finish();

  private:
    [[nodiscard]] bool writes(const ResultKind& kind) const;

    TraceHead head_;
    bool intermediates_;
    Index step_ = 0;
    SafetensorsWriter file_;
    std::vector<std::pair<std::string, std::vector<std::uint8_t>>>
        masks_; ///< written last, so floats stay aligned
};

/// The problem as the trace's metadata `config` holds it, and back. `what` begins the error's line.
[[nodiscard]] std::string config_text(const problem::Problem& problem, Index steps);
struct Config {
    problem::Problem problem;
    Index steps;
};
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);

} // namespace scape::verify
