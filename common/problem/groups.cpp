// Parses and checks the sizes of the groups in which ranks exchange on two levels.
#include <truestep/problem/groups.hpp>

#include <algorithm>
#include <cstdint>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

bool has_levels(std::span<const int> groups) {
    return groups.size() > 1 && std::ranges::any_of(groups, [](int size) { return size > 1; });
}

std::string groups_text(std::span<const int> groups) {
    std::string text;
    for (const int size : groups)
        text += (text.empty() ? "" : ",") + std::to_string(size);
    return text;
}

Groups parse_groups(std::string_view text) {
    if (text.empty())
        return {};
    auto groups = parse_numbers<int>(text);
    if (!groups)
        throw Error("groups is '" + std::string(text) +
                    "'; give the number of ranks of each, with commas between");
    return *std::move(groups);
}

void check_groups(std::span<const int> groups, int workers) {
    std::int64_t ranks = 0;
    for (const int size : groups) {
        if (size < 1)
            throw Error("groups is " + groups_text(groups) + "; each has at least 1 rank");
        ranks += size;
    }
    if (!groups.empty() && ranks != workers)
        throw Error("groups is " + groups_text(groups) + ", which is " + std::to_string(ranks) +
                    " ranks together; the problem has " + std::to_string(workers) + " workers");
}

} // namespace truestep::problem
