#pragma once

#include <filesystem>
#include <vector>

#include <truestep/training/drawing.hpp>
#include <truestep/training/plan.hpp>
#include <truestep/training/text.hpp>

namespace truestep::training {

/// "book.txt: 64 symbols, 262144 to learn from, 65536 measured".
[[nodiscard]] std::string words_of(const Text& text);

/// All of it as JSON: docs/training.md has the fields. Throws truestep::Error if it cannot be written; what
/// was there under this name is replaced whole.
void write_results(const std::filesystem::path& path, const Text& text, const Plan& plan,
                   const TrainingResults& results);

/// The runs in what `write_results` has written. Throws truestep::Error, one line, if it is another text or
/// plan than these, but for what a run may have as its own: its steps, rates and warm-ups.
[[nodiscard]] std::vector<Curve> curves_told(const std::filesystem::path& path, const Text& text,
                                             const Plan& plan);

} // namespace truestep::training
