#pragma once

#include <filesystem>
#include <vector>

#include <truestep/training/drawing.hpp>
#include <truestep/training/plan.hpp>
#include <truestep/training/text.hpp>

namespace truestep::training {

/// "book.txt: 64 symbols, 262144 to learn from, 65536 measured".
[[nodiscard]] std::string words_of(const Text& text);

/// Writes all results as JSON; docs/training.md has the fields. Replaces an old file as a whole.
/// Throws truestep::Error if it cannot be written.
void write_results(const std::filesystem::path& path, const Text& text, const Plan& plan,
                   const TrainingResults& results);

/// Reads the runs that `write_results` has written. Throws truestep::Error, one line, if they have
/// another text or plan than these. Steps, rates and warm-ups may differ by run.
[[nodiscard]] std::vector<Curve> curves_told(const std::filesystem::path& path, const Text& text,
                                             const Plan& plan);

} // namespace truestep::training
