#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <truestep/problem/layout.hpp>

/// What made-up runs of all systems are told in words.
namespace truestep::verify {

using problem::Index;

/// A value put into the gradients in place of the one that was drawn.
struct Injection {
    Index step = 0;
    int rank = 0;
    Index index = 0;
    float value = 0.0F;
};

/// "wq:60,norm:5:dense" as tensors.
[[nodiscard]] std::vector<problem::Tensor> parse_tensors(const std::string& text);
/// "2:0:17:nan": step, rank, coordinate, value.
[[nodiscard]] Injection parse_injection(const std::string& text);

/// Throws truestep::Error where such a run cannot be held in memory, or its gradients on the output's disk.
void check_room(const std::filesystem::path& output, int workers, Index size, Index steps);

/// The parts of a text between the separators.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char separator);

} // namespace truestep::verify
