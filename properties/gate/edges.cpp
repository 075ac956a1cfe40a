// Lists the sizes at the edges of registered constants, and counts the cases that have them.
#include <truestep/gate/edges.hpp>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <sstream>

namespace truestep::gate {

namespace {

using problem::cuts;

std::array<std::int64_t, 5> edges_of(const problem::Cut& cut) {
    const std::int64_t c = cut.edge();
    return {c - 1, c, c + 1, 2 * c, 2 * c + 1};
}

/// The value of a setting in a case's line: "usual" where the line leaves it out, "another" if it is a
/// number.
std::string value_of(const std::string& line, const std::string& key) {
    const std::string all = "," + line;
    const std::size_t at = all.find("," + key + "=");
    if (at == std::string::npos)
        return "usual";
    const std::size_t begin = at + key.size() + 2;
    return std::isalpha(static_cast<unsigned char>(all[begin])) != 0
               ? all.substr(begin, all.find(',', begin) - begin)
               : "another";
}

} // namespace

std::vector<std::vector<std::int64_t>> edge_sizes_in_order(problem::Dimension dimension,
                                                           std::int64_t most) {
    std::array<std::set<std::int64_t>, 5> sizes;
    for (const problem::Cut& cut : cuts)
        if (const auto edges = edges_of(cut); cut.dimension == dimension && edges.back() <= most)
            for (std::size_t edge = 0; edge < edges.size(); ++edge)
                sizes[edge].insert(edges[edge]);
    std::vector<std::vector<std::int64_t>> all;
    for (const auto& of_edge : sizes)
        all.emplace_back(of_edge.begin(), of_edge.end());
    return all;
}

std::vector<std::int64_t> edge_sizes(problem::Dimension dimension, std::int64_t most) {
    std::set<std::int64_t> sizes;
    for (const auto& of_constants : edge_sizes_in_order(dimension, most))
        sizes.insert(of_constants.begin(), of_constants.end());
    return {sizes.begin(), sizes.end()};
}

void Covering::begin(const Extents& sizes) {
    ++turn_;
    here_.clear();
    for (std::size_t i = 0; i < cuts.size(); ++i)
        for (const std::int64_t edge : edges_of(cuts[i]))
            if (sizes.contains({cuts[i].dimension, edge}))
                here_.insert(i);
}

std::size_t Covering::chosen(const std::string& setting, std::size_t values) {
    std::size_t best = 0;
    std::ptrdiff_t most = -1;
    for (std::size_t i = 0; i < values; ++i) {
        const std::size_t value = (turn_ + i) % values;
        const auto& met = met_[{setting, value}];
        const auto fresh =
            std::ranges::count_if(here_, [&](std::size_t constant) { return !met.contains(constant); });
        if (fresh > most) {
            best = value;
            most = fresh;
        }
    }
    met_[{setting, best}].insert(here_.begin(), here_.end());
    return best;
}

void EdgeCounts::add(const Extents& sizes, const std::string& line) {
    std::array<bool, cuts.size()> is_there{};
    for (std::size_t i = 0; i < cuts.size(); ++i)
        for (std::size_t edge = 0; edge < counts_[i].size(); ++edge)
            if (sizes.contains({cuts[i].dimension, edges_of(cuts[i])[edge]})) {
                ++counts_[i][edge];
                is_there[i] = true;
            }
    for (const std::string& key : settings_)
        for (std::size_t i = 0; i < cuts.size(); ++i)
            with_[key + "=" + value_of(line, key)][i] += is_there[i] ? 1 : 0;
}

std::string EdgeCounts::table() const {
    std::ostringstream table;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        table << cuts[i].name << ' ' << problem::name(cuts[i].dimension) << ' ' << cuts[i].edge();
        for (const int count : counts_[i])
            table << ' ' << count;
        table << '\n';
    }
    for (const auto& [value, counts] : with_)
        for (std::size_t i = 0; i < cuts.size(); ++i)
            table << cuts[i].name << ' ' << value << ' ' << counts[i] << '\n';
    return table.str();
}

} // namespace truestep::gate
