#pragma once

#include <filesystem>

#include <scape/training/drawing.hpp>
#include <scape/training/run.hpp>
#include <scape/training/text.hpp>

namespace scape::training {

/// "book.txt: 64 symbols, 262144 to learn from, 65536 measured".
[[nodiscard]] std::string words_of(const Text& text);

/// All of it as JSON: docs/training.md has the fields. Throws scape::Error if it cannot be written; what
/// was there under this name is replaced whole.
void write_results(const std::filesystem::path& path, const Text& text, const Plan& plan,
                   const TrainingResults& results);

} // namespace scape::training
