#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace truestep::problem {

/// Ranks in groups (section 32): how many each has, consecutive from rank 0 on. Empty: there are none.
using Groups = std::vector<int>;

/// Whether the fold has two levels: neither one group, nor groups of one.
[[nodiscard]] bool has_levels(std::span<const int> groups);

/// "3,2,1", and back. Throws truestep::Error unless it is numbers with commas between; "" is no groups.
[[nodiscard]] std::string groups_text(std::span<const int> groups);
[[nodiscard]] Groups parse_groups(std::string_view text);

/// Throws truestep::Error unless there are no groups, or together they have so many ranks.
void check_groups(std::span<const int> groups, int workers);

} // namespace truestep::problem
