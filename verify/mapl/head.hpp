#pragma once

#include <string>
#include <vector>

#include <truestep/verify/mapl/traces.hpp>

namespace truestep::verify::mapl {

/// The data of a trace before its first step.
struct Head {
    Config config;
    std::vector<double> rates;
    std::vector<Index> ids;
    std::vector<float> a;
    std::vector<float> m;
    std::vector<float> rows[2];   ///< P of sender and receiver, empty without anchors
    std::vector<float> codebooks; ///< C of both sides; empty without codewords
    std::vector<float> learned;   ///< L
};
/// Throws truestep::Error, one line that begins with the path.
[[nodiscard]] Head read_head(const trace::Reader& file);
/// The settings of a trace, in one line for a report.
[[nodiscard]] std::string describe(const Config& config);

} // namespace truestep::verify::mapl
