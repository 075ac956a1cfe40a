// Lists the sizes at the edges of registered constants, and counts the cases that have them.
#include <truestep/gate/edges.hpp>

#include <sstream>

namespace truestep::gate {

namespace {

using problem::cuts;

std::array<std::int64_t, 5> edges_of(const problem::Cut& cut) {
    const std::int64_t c = cut.edge();
    return {c - 1, c, c + 1, 2 * c, 2 * c + 1};
}

} // namespace

std::vector<std::int64_t> edge_sizes(problem::Dimension dimension, std::int64_t most) {
    std::set<std::int64_t> sizes;
    for (const problem::Cut& cut : cuts)
        if (const auto edges = edges_of(cut); cut.dimension == dimension && edges.back() <= most)
            sizes.insert(edges.begin(), edges.end());
    return {sizes.begin(), sizes.end()};
}

void EdgeCounts::add(const Extents& sizes) {
    for (std::size_t i = 0; i < cuts.size(); ++i)
        for (std::size_t edge = 0; edge < counts_[i].size(); ++edge)
            counts_[i][edge] += sizes.contains({cuts[i].dimension, edges_of(cuts[i])[edge]}) ? 1 : 0;
}

std::string EdgeCounts::table() const {
    std::ostringstream table;
    for (std::size_t i = 0; i < cuts.size(); ++i) {
        table << cuts[i].name << ' ' << problem::name(cuts[i].dimension) << ' ' << cuts[i].edge();
        for (const int count : counts_[i])
            table << ' ' << count;
        table << '\n';
    }
    return table.str();
}

} // namespace truestep::gate
