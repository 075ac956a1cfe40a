#include <truestep/report/environment.hpp>

#include <array>
#include <fstream>
#include <sstream>
#include <string_view>
#include <thread>

#include <Eigen/Core>
#include <nlohmann/json.hpp>

// Only for the command line: where that is not built, the header may be missing.
#if __has_include(<CLI/Version.hpp>)
#include <CLI/Version.hpp>
#else
#define CLI11_VERSION ""
#endif

#include <build_info.hpp>

namespace truestep::report {

namespace {

std::string dotted(int major, int minor, int patch) {
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(patch);
}

/// The first value of a key in the kernel's description of the processor; empty where there is none.
std::string processor_entry(std::string_view key) {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        const std::size_t colon = line.find(':');
        if (line.starts_with(key) && colon != std::string::npos)
            return colon + 2 <= line.size() ? line.substr(colon + 2) : std::string();
    }
    return {};
}

/// The features of the processor that decide how vector code runs.
std::string vector_features() {
    constexpr std::array<std::string_view, 12> wanted{"sse4_2",       "avx",     "avx2",     "fma",
                                                      "bmi2",         "avx512f", "avx512bw", "avx512vl",
                                                      "avx512_vbmi2", "asimd",   "sve",      "sve2"};
    std::istringstream all(processor_entry("flags") + " " + processor_entry("Features"));
    std::string found;
    for (std::string feature; all >> feature;)
        for (const std::string_view name : wanted)
            if (name == feature)
                found += (found.empty() ? "" : " ") + feature;
    return found.empty() ? "unknown" : found;
}

std::string or_left_out(std::string_view version) {
    return version.empty() ? "left out: not found when built" : std::string(version);
}

} // namespace

std::string version() {
    return build_info::version;
}

std::vector<std::pair<std::string, std::string>> environment() {
    const std::string model = processor_entry("model name");
    std::vector<std::pair<std::string, std::string>> result{
        {"truestep", version()},
        {"trace format", "scape-trace 1"},
        {"compiler", build_info::compiler},
        {"build",
         std::string(build_info::build_type) + (*build_info::sanitizers != '\0'
                                                    ? std::string(", sanitizers ") + build_info::sanitizers
                                                    : std::string())},
        {"arithmetic", "fp32 by section 5: no contraction (-ffp-contract=off), no fast-math"},
        {"system", build_info::system},
        {"processor", model.empty() ? "unknown" : model},
        {"processor features", vector_features()},
        {"threads of the machine", std::to_string(std::thread::hardware_concurrency())},
        {"Eigen", dotted(EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION)},
        {"nlohmann-json",
         dotted(NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR, NLOHMANN_JSON_VERSION_PATCH)},
        {"CLI11", or_left_out(CLI11_VERSION)},
        {"MPI", or_left_out(build_info::mpi)},
        {"CUDA", or_left_out(build_info::cuda)},
        {"NCCL", or_left_out(build_info::nccl)},
    };
    return result;
}

nlohmann::ordered_json json_environment() {
    nlohmann::ordered_json json = nlohmann::ordered_json::object();
    for (const auto& [key, value] : environment())
        json[key] = value;
    return json;
}

} // namespace truestep::report
