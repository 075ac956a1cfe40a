// The machines for which predictions are made, and measurements of bench_peers on others.
#include "model_inputs.hpp"

#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>

namespace truestep::model {

namespace {

/// Bytes per second. Old files have the rate only in their title: "10gbit".
double bandwidth_of(const nlohmann::json& json) {
    const std::string title = json.at("title");
    double bits = json.value("rate_bits_per_second", 0.0);
    if (bits == 0 && title.find("gbit") != std::string::npos)
        bits = std::strtod(title.c_str(), nullptr) * 1e9;
    if (!(bits > 0))
        throw Error("the title '" + title +
                    "' names no rate, and the file has none; give files of bench/shaped-network's runs");
    // Of a full frame of 1514 bytes 1448 are payload; tbf counts the frame.
    return bits / 8 * 1448 / 1514;
}

} // namespace

Machine gh200() {
    return {50e9, 5e-6, 1e-6, 0.0, 3.6e12, 0.0};
}

Machine no_machine() {
    return {0, 0, 0, 0, 0, 0};
}

std::vector<Measured> read_measured(const std::vector<std::string>& files) {
    std::vector<Measured> rows;
    for (const std::string& file : files)
        try {
            std::ifstream in(file);
            const auto json = nlohmann::json::parse(in);
            for (const auto& row : json.at("rows"))
                rows.push_back(
                    {row.at("peer"),
                     {json.at("d"), json.at("ranks"), row.at("density"), 0, row.value("inner_steps", 1.0)},
                     bandwidth_of(json),
                     row.at("least_seconds"),
                     json.value("delay_seconds", 0.0)});
        } catch (const nlohmann::json::exception&) {
            throw Error(
                file +
                ": this is not the output of bench_peers --json; give files of bench/shaped-network");
        }
    return rows;
}

} // namespace truestep::model
