#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>
#include <truestep/verify/traces.hpp>

/// The texts that describe synthetic runs of all systems.
namespace truestep::verify {

using problem::Index;

/// A value that replaces a drawn one in the gradients.
struct Injection {
    Index step = 0;
    int rank = 0;
    Index index = 0;
    float value = 0.0F;
    std::string text{}; ///< that says so
};

/// Parses tensors, such as "wq:60,norm:5:dense".
[[nodiscard]] std::vector<problem::Tensor> parse_tensors(const std::string& text);
/// Parses an injection, such as "2:0:17:nan": step, rank, coordinate, value.
[[nodiscard]] Injection parse_injection(const std::string& text);
/// The values of --inject of a run of this size.
[[nodiscard]] std::vector<Injection> injections_of(const Settings& settings, Index steps, int ranks,
                                                   Index size, const Words& words = {});
/// A learning rate on a straight line from the first step to the last. Below 0 the last is as the first.
[[nodiscard]] double rate_between(double first, double last, Index step, Index steps);

/// Throws truestep::Error if memory cannot hold such a run, or the output's disk its gradients.
void check_room(const std::filesystem::path& output, int workers, Index size, Index steps);

/// The parts of a text between the separators.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char separator);

} // namespace truestep::verify
