// Adds SCAPE's payloads on two levels: within each group of ranks, then among groups.
#include "group_fold.hpp"

#include <algorithm>

#include <truestep/problem/tunable.hpp>

#include "pieces_under_way.hpp"
#include "reusable_buffer.hpp"

namespace truestep::distributed::scape {

namespace {

/// Makes the backend fold to a sum instead of a mean.
Scalars undivided(Scalars scalars) {
    scalars.workers = 1.0F;
    return scalars;
}

} // namespace

Index GroupFold::Piece::of(Index part) const {
    return std::clamp<Index>(part - begin, 0, count);
}

/// The same for all pieces of a step. A bucket comes at once, and its size varies.
Index GroupFold::Piece::room(Index part) const {
    return count < all_there_is ? std::min(count, part) : room_to_vary(part);
}

const GroupFold::Places& GroupFold::places_of(Selected selected) {
    places_.put(selected);
    return places_;
}

void GroupFold::fold(const Scalars& scalars, Selected selected, Index at_once, Index largest_piece) {
    constexpr Index worth_a_message = problem::tunable<Index>("worth_a_message");
    const auto length = [&](std::size_t parts) {
        return largest_piece > 0 ? largest_piece
                                 : std::max(worth_a_message, at_once / static_cast<Index>(parts));
    };
    const Places& places = places_of(selected);
    const Index block = places.count(levels_.handled());
    const Index block_at = places.begin(levels_.handled().begin);
    in_pieces<Piece>(
        largest_block(places), length(levels_.largest_group()), can_.rooms,
        [&](const Piece& piece) { return to_handlers(backend_.sent(), places, piece); },
        [&](const Piece& piece) {
            backend_.fold(undivided(scalars), ranks_of_group(), block_at + piece.begin, piece.of(block));
        });

    const Index own = places.count(levels_.rank());
    float* const means = backend_.moment() + places.begin(levels_.rank());
    in_pieces<Piece>(
        places.largest(), length(levels_.groups().size()), can_.rooms,
        [&](Piece& piece) { return to_owners(backend_.moment(), places, piece); },
        [&](const Piece& piece) {
            can_.groups->fold_sums(scalars, groups(), piece.of(own), piece.sums,
                                   means + std::min(piece.begin, own));
        });
}

std::unique_ptr<Exchange> GroupFold::start(const void* payload, Selected selected) {
    return to_handlers(payload, places_of(selected), {});
}

void GroupFold::finish(std::size_t bucket, float* sums, const Scalars& scalars, Selected selected) {
    const Places& places = places_of(selected);
    const Levels::Span handled = levels_.handled();
    can_.parts->fold_in(bucket, undivided(scalars), ranks_of_group(), places.begin(handled.begin),
                        places.count(handled));
    Piece whole;
    to_owners(sums, places, whole)->wait();
    can_.groups->fold_sums(scalars, groups(), places.count(levels_.rank()), whole.sums,
                           sums + places.begin(levels_.rank()));
}

Index GroupFold::largest_block(const Places& places) const {
    Index largest = 0;
    for (const Levels::Group& group : levels_.groups())
        for (std::size_t j = 0; j < group.size; ++j)
            largest = std::max(largest, places.count(levels_.handled(group, j)));
    return largest;
}

std::unique_ptr<Exchange> GroupFold::to_handlers(const void* payload, const Places& places,
                                                 const Piece& piece) {
    const Levels::Group& group = levels_.own_group();
    const auto bytes = [this](Index count) { return static_cast<std::size_t>(count) * value_bytes_; };
    to_.assign(places.owners(), {});
    from_.assign(places.owners(), {});
    const Index mine = piece.of(places.count(levels_.handled()));
    for (std::size_t j = 0; j < group.size; ++j) {
        const Levels::Span owners = levels_.handled(group, j);
        to_[group.begin + j] = {bytes(places.begin(owners.begin) + piece.begin),
                                bytes(piece.of(places.count(owners)))};
        from_[group.begin + j] = {j * bytes(mine), bytes(mine)};
    }
    void* received = backend_.received(piece.room(places.count(levels_.handled())) * ranks_of_group());
    return communicator_.start_stretches(Traffic::payload, payload, to_, received, from_);
}

std::unique_ptr<Exchange> GroupFold::to_owners(const float* sums, const Places& places, Piece& piece) {
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(float); };
    to_.assign(places.owners(), {});
    from_.assign(places.owners(), {});
    const auto [first, last] = levels_.handled();
    for (std::size_t owner = first; owner < last; ++owner)
        to_[owner] = {bytes(places.begin(owner) + piece.begin), bytes(piece.of(places.count(owner)))};
    const Index mine = piece.of(places.count(levels_.rank()));
    for (std::size_t number = 0; number < levels_.groups().size(); ++number)
        from_[levels_.handler(levels_.groups()[number], levels_.rank())] = {number * bytes(mine),
                                                                            bytes(mine)};
    piece.sums = can_.groups->received_sums(piece.room(places.count(levels_.rank())) * groups());
    return communicator_.start_stretches(Traffic::payload, sums, to_, piece.sums, from_);
}

std::uint64_t GroupFold::bytes_sent(Selected selected) {
    const Places& places = places_of(selected);
    const auto [first, last] = levels_.handled();
    const Index handled = places.count({first, last});
    const bool own = levels_.rank() >= first && levels_.rank() < last;
    return static_cast<std::uint64_t>(places.all() - handled) * value_bytes_ +
           static_cast<std::uint64_t>(handled - (own ? places.count(levels_.rank()) : 0)) * sizeof(float);
}

} // namespace truestep::distributed::scape
