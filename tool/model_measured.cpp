// The machines that predictions are made for, and what bench_peers has measured on others.
#include "model_parts.hpp"

#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>

namespace scape::tool {

using model::Machine;
using model::Measured;

namespace {

double bandwidth_of(const std::string& title) {
    const double number = std::strtod(title.c_str(), nullptr);
    if (!(number > 0) || title.find("gbit") == std::string::npos ||
        title.find("delay") != std::string::npos)
        throw Error("the title '" + title +
                    "' is no rate of bench/shaped-network's without a delay; give files of such runs");
    // Of a full frame of 1514 bytes 1448 are payload; tbf counts the frame.
    return number * 1e9 / 8 * 1448 / 1514;
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
                     bandwidth_of(json.at("title")),
                     row.at("least_seconds")});
        } catch (const nlohmann::json::exception&) {
            throw Error(file +
                        ": this is no output of bench_peers --json; give files of bench/shaped-network");
        }
    return rows;
}

double predicted(const Measured& row, Machine machine) {
    machine.bandwidth = row.bandwidth;
    return model::seconds_of(row.scheme, row.setting, machine).step;
}

} // namespace scape::tool
