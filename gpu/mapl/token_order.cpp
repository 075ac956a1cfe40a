// Groups the tokens of a micro-batch by id, so that one block adds all rows of an id in order.
#include "token_order.hpp"

#include <algorithm>
#include <numeric>

namespace truestep::gpu::mapl {

TokenOrder order_of(const std::vector<Id>& ids) {
    TokenOrder order{.values = std::vector<std::uint32_t>(ids.size()), .tokens = ids.size()};
    std::iota(order.values.begin(), order.values.end(), 0U);
    std::ranges::stable_sort(order.values, {}, [&](std::uint32_t token) { return ids[token]; });
    std::vector<std::uint32_t> begins;
    for (std::uint32_t at = 0; at < ids.size(); ++at)
        if (at == 0 || ids[order.values[at]] != ids[order.values[at - 1]])
            begins.push_back(at);
    order.groups = begins.size();
    for (std::size_t group = 0; group < order.groups; ++group)
        order.values.push_back(ids[order.values[begins[group]]]);
    begins.push_back(static_cast<std::uint32_t>(ids.size()));
    order.values.insert(order.values.end(), begins.begin(), begins.end());
    return order;
}

} // namespace truestep::gpu::mapl
