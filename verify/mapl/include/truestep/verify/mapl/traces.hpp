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

/// The config of a trace.
struct Config {
    Settings settings;
    Index steps = 1;
    Index micro = 1;       ///< micro-batches of a step
    Index tokens = 1;      ///< of a micro-batch
    bool ascending = true; ///< gradients returned in the order of the micro-batches, else in reverse
    Index before = 0;      ///< micro-batches before the first step, which determine the next codewords
    [[nodiscard]] bool trains_anchors() const {
        return settings.anchors == Anchors::shared || settings.anchors == Anchors::two;
    }
};

/// Both directions throw truestep::Error, one line that begins with `what`.
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);
[[nodiscard]] std::string config_text(const Config& config);

[[nodiscard]] trace::Schema schema(const Config& config);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);

/// The name of a micro-batch's result in a step, counted from 1: "Z.2"; micro-batch 0 means none.
[[nodiscard]] std::string of_micro(const std::string& what, Index micro);
/// The name with its step, such as "step/0002/Z.1"; steps are counted from 1.
[[nodiscard]] std::string of_step(Index step, const std::string& what);

/// A whole trace in memory: vectors by the names of their tensors. Missing vectors are not
/// recorded.
struct Recording {
    Config config;
    std::map<std::string, std::vector<double>> numbers; ///< "rate", "ids"
    std::map<std::string, std::vector<float>> vectors;
};
/// The steps from `first` to `last` of a trace, as a separate trace that begins with the state
/// before them; nothing if that was not recorded. Throws truestep::Error if the file is not a
/// trace.
[[nodiscard]] std::optional<Recording> steps_of(const std::filesystem::path& path, Index first, Index last);

/// Throws truestep::Error if an input is missing.
void write(const std::filesystem::path& path, const Recording& recording, const std::string& source);

/// Compares a trace with the reference.
[[nodiscard]] verify::TraceVerdict verify_trace(const std::filesystem::path& path,
                                                const verify::VerifyOptions& options);

/// Runs the reference on synthetic activations and gradients and writes the trace.
void record(const verify::SyntheticRun& run);

/// Everything about these traces that the tool needs.
[[nodiscard]] verify::Traces traces();

} // namespace truestep::verify::mapl
