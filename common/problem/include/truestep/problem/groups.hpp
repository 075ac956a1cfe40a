#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::problem {

/// The sizes of the groups of ranks (section 32), which are consecutive from rank 0 on. Empty: no
/// groups.
using Groups = std::vector<int>;

/// Whether the fold has two levels: neither one group, nor groups of one.
[[nodiscard]] bool has_levels(std::span<const int> groups);

/// Text such as "3,2,1", and back. Parsing throws truestep::Error unless the text is numbers
/// separated by commas; "" means no groups.
[[nodiscard]] std::string groups_text(std::span<const int> groups);
[[nodiscard]] Groups parse_groups(std::string_view text);

/// Throws truestep::Error unless there are no groups or their sizes add up to `workers`.
void check_groups(std::span<const int> groups, int workers);

} // namespace truestep::problem
