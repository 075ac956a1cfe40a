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

/// What the config of a trace says.
struct Config {
    Settings settings; ///< without the graphs of `explicit`, which stand in a series
    int workers = 1;
    problem::Layout layout;
    Index edges = 0;                             ///< of all rounds
    std::vector<std::vector<Index>> inner_steps; ///< for each round each worker's H

    [[nodiscard]] Index rounds() const { return static_cast<Index>(inner_steps.size()); }
    [[nodiscard]] Index steps(int worker, Index round) const {
        return inner_steps[static_cast<std::size_t>(round - 1)][static_cast<std::size_t>(worker)];
    }
    /// The greatest of a round, and of all.
    [[nodiscard]] Index most_steps(Index round) const;
    [[nodiscard]] Index most_steps() const;
};

/// Both directions throw truestep::Error, one line that begins with `what`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);
[[nodiscard]] std::string config_text(const Config& config);

enum class Result { inner, first_moment, second_moment, drifted, gossiped, parameters };
constexpr std::size_t result_count = 6;
[[nodiscard]] const trace::Result& result(Result which);
/// Whether runs of this inner optimizer have it.
[[nodiscard]] bool has(Inner inner, Result which);
[[nodiscard]] std::vector<Result> results_of(Inner inner);
/// That the next round's momentum starts from.
[[nodiscard]] Result result_before(Momentum momentum);

[[nodiscard]] trace::Schema schema(const Config& config);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);
/// The gradient of inner step h.
[[nodiscard]] trace::Kind gradient_kind(Index h);

/// What a trace says before its first round.
struct Head {
    Config config;                      ///< with the graphs of `explicit`
    std::vector<double> learning_rates; ///< round after round
    std::vector<float> initial_parameters;
    std::vector<Graph> graphs; ///< those recorded, round by round

    /// Of one round, from inner step 1 on.
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

/// What a verdict on a trace of this system calls a step and a rank.
inline constexpr verify::Words words{"round", "worker"};

/// A trace beside the reference.
[[nodiscard]] verify::TraceVerdict verify_trace(const std::filesystem::path& path,
                                                const verify::VerifyOptions& options);

/// Each known mistake is made in the round at which a trace first parts, and in the rounds after it, from
/// the recorded state before each. The one that makes the recorded values, or "".
[[nodiscard]] std::string known_mistake(const verify::TraceVerdict& verdict);

/// Runs the reference on made-up gradients and writes the trace.
void record(const verify::MadeUpRun& run);

/// All of it, for the tool.
[[nodiscard]] verify::Traces traces();

} // namespace truestep::verify::gasloc
