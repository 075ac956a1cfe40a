#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <truestep/problem/mapl/settings.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/verify/traces.hpp>

// Traces of one boundary of MAPL: docs/specification/traces.md.
namespace truestep::verify::mapl {

using namespace problem::mapl;
using problem::mapl::Settings; // verify has one, too

/// What the config of a trace says.
struct Config {
    Settings settings;
    Index steps = 1;
    Index micro = 1;       ///< micro-batches of a step
    Index tokens = 1;      ///< of a micro-batch
    bool ascending = true; ///< gradients came back in the order of the micro-batches, else in the other
    Index before = 0; ///< micro-batches that went before the first step: whose turn it is, of codewords
    [[nodiscard]] bool trains_anchors() const {
        return settings.anchors == Anchors::shared || settings.anchors == Anchors::two;
    }
};

/// Both directions throw truestep::Error, one line that begins with `what`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);
[[nodiscard]] std::string config_text(const Config& config);

[[nodiscard]] trace::Schema schema(const Config& config);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);

/// Those of a step that belong to a micro-batch, which are counted from 1: "Z.2"; others have micro-batch
/// 0.
[[nodiscard]] std::string of_micro(const std::string& what, Index micro);
/// "step/0002/Z.1"; steps are counted from 1.
[[nodiscard]] std::string of_step(Index step, const std::string& what);

/// A whole trace in memory: vectors by the names of their tensors. What it has none of is not recorded.
struct Recording {
    Config config;
    std::map<std::string, std::vector<double>> numbers; ///< "rate", "ids"
    std::map<std::string, std::vector<float>> vectors;
};
/// The steps from `first` to `last` of a trace, as a trace of their own that begins with the state before
/// them: nothing, if that was not recorded. Throws truestep::Error where it is no trace.
[[nodiscard]] std::optional<Recording> steps_of(const std::filesystem::path& path, Index first, Index last);

/// Throws truestep::Error where an input is missing.
void write(const std::filesystem::path& path, const Recording& recording, const std::string& source);

/// A trace beside the reference.
[[nodiscard]] verify::TraceVerdict verify_trace(const std::filesystem::path& path,
                                                const verify::VerifyOptions& options);

/// Runs the reference on made-up activations and gradients and writes the trace.
void record(const verify::MadeUpRun& run);

/// All of it, for the tool.
[[nodiscard]] verify::Traces traces();

} // namespace truestep::verify::mapl
