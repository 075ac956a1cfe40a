#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/gasloc/settings.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/trace/writer.hpp>
#include <truestep/verify/traces.hpp>

// Traces of GASLoC: section 19.

namespace truestep::verify::gasloc {

using namespace problem::gasloc;
using problem::gasloc::Settings; // verify has one, too

/// The config of a trace.
struct Config {
    Settings settings; ///< without the graphs of `explicit`, which are a series
    int workers = 1;
    problem::Layout layout;
    Index edges = 0;                             ///< of all rounds
    std::vector<std::vector<Index>> inner_steps; ///< for each round each worker's H

    [[nodiscard]] Index rounds() const { return static_cast<Index>(inner_steps.size()); }
    [[nodiscard]] Index steps(int worker, Index round) const {
        return inner_steps[static_cast<std::size_t>(round - 1)][static_cast<std::size_t>(worker)];
    }
    /// The greatest number of inner steps in a round, and in all rounds.
    [[nodiscard]] Index most_steps(Index round) const;
    [[nodiscard]] Index most_steps() const;
};

/// Both directions throw truestep::Error, one line that begins with `what`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);
[[nodiscard]] std::string config_text(const Config& config);

enum class Result { inner, first_moment, second_moment, drifted, gossiped, parameters };
constexpr std::size_t result_count = 6;
[[nodiscard]] const trace::Result& result(Result which);
/// Whether runs of this inner optimizer have the result.
[[nodiscard]] bool has(Inner inner, Result which);
[[nodiscard]] std::vector<Result> results_of(Inner inner);
/// The result from which the next round's momentum starts.
[[nodiscard]] Result result_before(Momentum momentum);

[[nodiscard]] trace::Schema schema(const Config& config);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);
/// The gradient of inner step h.
[[nodiscard]] trace::Kind gradient_kind(Index h);

/// The data of a trace before its first round.
struct Head {
    Config config;                      ///< with the graphs of `explicit`
    std::vector<double> learning_rates; ///< round after round
    std::vector<float> initial_parameters;
    std::vector<Graph> graphs; ///< recorded graphs, round by round

    /// The learning rates of one round, from inner step 1 on.
    [[nodiscard]] std::vector<double> learning_rates_of(Index round) const;
};

/// The series of the edges of all rounds, by the config's law or given graphs.
[[nodiscard]] std::vector<double> edges_series(const Config& config);

class TraceReader : public trace::Reader {
  public:
    explicit TraceReader(const std::filesystem::path& path);
    [[nodiscard]] const Head& head() const { return head_; }

  private:
    Head head_;
};

/// The words for a step and a rank in a verdict on a trace of this system.
inline constexpr verify::Words words{"round", "worker"};

/// Compares a trace with the reference.
[[nodiscard]] verify::TraceVerdict verify_trace(const std::filesystem::path& path,
                                                const verify::VerifyOptions& options);

/// Tries each known bug on the round at which a trace first differs, and on the rounds after it,
/// from the recorded state before each. Returns the bug that makes the recorded values, or "".
[[nodiscard]] std::string known_bug(const verify::TraceVerdict& verdict);

/// Runs the reference on synthetic gradients and writes the trace.
void record(const verify::SyntheticRun& run);

/// Everything about these traces that the tool needs.
[[nodiscard]] verify::Traces traces();

} // namespace truestep::verify::gasloc
