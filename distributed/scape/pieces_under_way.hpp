#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>

#include <truestep/distributed/communicator.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::distributed::scape {

/// Exchanges piece by piece, with the next one on its way while one is folded: start() gives a
/// piece's exchange, and finish() handles its arrival. A backend has `rooms` under way at once. All
/// ranks have the same number of pieces, even if some are empty for them.
template <class Piece, class Start, class Finish>
void in_pieces(problem::Index longest, problem::Index length, int rooms, const Start& start,
               const Finish& finish) {
    struct UnderWay {
        Piece piece{};
        std::unique_ptr<Exchange> exchange{};
    };
    std::array<UnderWay, 4> places;
    const std::size_t at_once = std::min(places.size(), static_cast<std::size_t>(rooms));
    std::size_t first = 0; // by running numbers
    std::size_t next = 0;
    const auto end = [&](UnderWay& under_way) {
        under_way.exchange->wait();
        finish(under_way.piece);
        under_way.exchange.reset();
    };
    for (problem::Index begin = 0; begin < longest; begin += length) {
        if (next - first == at_once)
            end(places[first++ % places.size()]);
        UnderWay& under_way = places[next++ % places.size()];
        under_way.piece = Piece{begin, length};
        under_way.exchange = start(under_way.piece);
    }
    for (; first != next; ++first)
        end(places[first % places.size()]);
}

} // namespace truestep::distributed::scape
