// Traces of dense training: section 42.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/dense/settings.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/trace/writer.hpp>
#include <truestep/verify/traces.hpp>

namespace truestep::verify::dense {

using namespace problem::dense;

/// The config of a trace.
struct Config {
    Problem problem;
    Index steps = 1;
    Index begin = 0; ///< steps that the optimizer had taken before the trace
};

/// Both directions throw truestep::Error, one line that begins with `what`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);
[[nodiscard]] std::string config_text(const Config& config);

enum class Result { mean, clipped, first_moment, second_moment, orthogonalized, parameters, copies };
constexpr std::size_t result_count = 7;
[[nodiscard]] const trace::Result& result(Result which);
/// The results that runs of this problem have, in the order in which they come about.
[[nodiscard]] std::vector<Result> results_of(const Problem& problem);

[[nodiscard]] trace::Schema schema(const Config& config);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);
/// The gradient of a rank's micro-batch, counted from 1.
[[nodiscard]] trace::Kind gradient_kind(Index micro);

/// The data of a trace before its first step.
struct Head {
    Config config;
    std::vector<double> learning_rates; ///< step after step, in each group after group
    std::vector<float> parameters;
    std::vector<float> first_moment; ///< empty where nothing has been taken before
    std::vector<float> second_moment;

    [[nodiscard]] std::vector<double> rates_of(Index step) const;
};

class TraceReader : public trace::Reader {
  public:
    explicit TraceReader(const std::filesystem::path& path);
    [[nodiscard]] const Head& head() const { return head_; }

  private:
    Head head_;
};

/// Compares a trace with the reference.
[[nodiscard]] verify::TraceVerdict verify_trace(const std::filesystem::path& path,
                                                const verify::VerifyOptions& options);

/// Tries other rules and settings on a failed trace. Returns the one with which every recorded
/// parameter agrees, as a sentence, or "".
[[nodiscard]] std::string other_rule(const verify::TraceVerdict& verdict);

/// Runs the reference on synthetic gradients and writes the trace.
void record(const verify::SyntheticRun& run);

/// Everything about these traces that the tool needs.
[[nodiscard]] verify::Traces traces();

} // namespace truestep::verify::dense
