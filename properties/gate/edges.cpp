// Lists the sizes at the edges of registered constants, and counts the cases that have them.
#include <truestep/gate/edges.hpp>

#include <algorithm>
#include <cstddef>
#include <sstream>

namespace truestep::gate {

namespace {

using problem::cuts;

std::array<std::int64_t, 5> edges_of(const problem::Cut& cut) {
    const std::int64_t c = cut.edge();
    return {c - 1, c, c + 1, 2 * c, 2 * c + 1};
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
    of_case_.clear();
    for (std::size_t i = 0; i < cuts.size(); ++i)
        if (std::ranges::any_of(edges_of(cuts[i]), [&](std::int64_t edge) {
                return sizes.contains({cuts[i].dimension, edge});
            }))
            here_.push_back(i);
}

std::size_t Covering::chosen(const std::string& setting, std::size_t values) {
    Choice best;
    std::pair<std::ptrdiff_t, std::ptrdiff_t> most{-1, -1};
    for (std::size_t i = 0; i < values; ++i) {
        const Choice choice{setting, (turn_ + i) % values};
        const std::pair fresh{
            std::ranges::count_if(here_, [&](std::size_t cut) { return !met_[choice].contains(cut); }),
            std::ranges::count_if(of_case_, [&](const Choice& before) {
                return !together_.contains({before, choice});
            })};
        if (fresh > most) {
            best = choice;
            most = fresh;
        }
    }
    met_[best].insert(here_.begin(), here_.end());
    for (const Choice& before : of_case_)
        together_.insert({before, best});
    of_case_.push_back(best);
    return best.second;
}

void EdgeCounts::add(const Extents& sizes, const std::map<std::string, std::string>& settings) {
    std::array<bool, cuts.size()> is_there{};
    for (std::size_t i = 0; i < cuts.size(); ++i)
        for (std::size_t edge = 0; edge < counts_[i].size(); ++edge)
            if (sizes.contains({cuts[i].dimension, edges_of(cuts[i])[edge]})) {
                ++counts_[i][edge];
                is_there[i] = true;
            }
    for (const auto& [key, value] : settings) {
        auto& counts = with_[key + "=" + value];
        for (std::size_t i = 0; i < cuts.size(); ++i)
            counts[i] += is_there[i] ? 1 : 0;
    }
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
