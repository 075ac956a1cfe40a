#pragma once

#include <string>
#include <vector>

// What drawings have in common.

namespace truestep::training::svg {

/// Opens a whole drawing: its size, what it is to those who cannot see it, its style and its ground.
[[nodiscard]] std::string begin(double width, double height, const std::string& label);

/// `anchor` is "start", "middle" or "end"; `words` plain text.
[[nodiscard]] std::string label(const std::string& look, double x, double y, const std::string& anchor,
                                const std::string& words);

/// In their order, but at least `gap` apart and within these edges: where labels of lines that lie close
/// go.
[[nodiscard]] std::vector<double> apart(const std::vector<double>& places, double gap, double top,
                                        double bottom);

/// No longer than so many characters; what is left out is the end.
[[nodiscard]] std::string clipped(const std::string& name, std::size_t most);

} // namespace truestep::training::svg
