#include <scape/distributed/communicator.hpp>

#include <sstream>

#include "missing.hpp"

namespace scape::distributed {

std::string_view name(Traffic traffic) {
    constexpr std::array<std::string_view, traffic_kinds> names{"agreement", "payload",  "moment",
                                                                "mask",      "gradient", "parameters"};
    return names.at(static_cast<std::size_t>(traffic));
}

std::unique_ptr<Exchange> Communicator::start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                            Piece piece, void* receive) {
    for (const std::size_t size : sizes)
        if (piece.size_in(size) != size)
            throw std::logic_error("the communicator " + name() + " sends no pieces of parts");
    const std::vector<std::size_t> from_each(sizes.size(), sizes[static_cast<std::size_t>(rank())]);
    return start_all_to_all(traffic, send, sizes, receive, from_each);
}

std::string ranks_text(std::span<const int> ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i > 0)
            text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    return text;
}

std::string exchange_text(Traffic traffic) {
    return (traffic == Traffic::agreement ? "an " : "a ") + std::string(name(traffic)) + " exchange";
}

std::string missing_text(std::span<const int> ranks, std::chrono::milliseconds timeout,
                         const std::string& where) {
    std::ostringstream text;
    text << ranks_text(ranks) << " did not answer within " << static_cast<double>(timeout.count()) / 1000
         << " s in " << where;
    return text.str();
}

std::string reason_text(int rank, const std::string& reason) {
    return "rank " + std::to_string(rank) + ": " + reason;
}

} // namespace scape::distributed
