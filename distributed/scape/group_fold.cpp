#include "group_fold.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

namespace scape::distributed {

namespace {

Index before(GroupFold::Selected selected, std::size_t owner) {
    const auto some = selected.first(owner);
    return std::reduce(some.begin(), some.end());
}

Index values_of(GroupFold::Selected selected, Levels::Span owners) {
    const auto some = selected.subspan(owners.begin, owners.end - owners.begin);
    return std::reduce(some.begin(), some.end());
}

/// So that what the backend folds is a sum, and no mean.
Scalars undivided(Scalars scalars) {
    scalars.workers = 1.0F;
    return scalars;
}

/// Piece after piece, the next one on its way while one is folded. All ranks have as many, whatever there
/// is for them in it.
template <class Piece, class Start, class Finish>
void in_pieces(Index longest, Index length, int rooms, const Start& start, const Finish& finish) {
    std::deque<std::pair<Piece, std::unique_ptr<Exchange>>> under_way;
    const auto finish_first = [&] {
        under_way.front().second->wait();
        finish(under_way.front().first);
        under_way.pop_front();
    };
    for (Index begin = 0; begin < longest; begin += length) {
        if (under_way.size() == static_cast<std::size_t>(rooms))
            finish_first();
        const Piece piece{begin, length};
        under_way.emplace_back(piece, start(piece));
    }
    while (!under_way.empty())
        finish_first();
}

} // namespace

Index GroupFold::Piece::of(Index part) const {
    return std::clamp<Index>(part - begin, 0, count);
}

void GroupFold::fold(const Scalars& scalars, Selected selected, Index at_once, Index largest_piece) {
    constexpr Index worth_a_message = Index{1} << 13;
    const auto length = [&](std::size_t parts) {
        return largest_piece > 0 ? largest_piece
                                 : std::max(worth_a_message, at_once / static_cast<Index>(parts));
    };
    Index largest_block = 0;
    for (const Levels::Group& group : levels_.groups())
        for (std::size_t j = 0; j < group.size; ++j)
            largest_block = std::max(largest_block, values_of(selected, levels_.handled(group, j)));
    const Index block = values_of(selected, levels_.handled());
    const Index block_at = before(selected, levels_.handled().begin);
    in_pieces<Piece>(
        largest_block, length(levels_.largest_group()), backend_.rooms(),
        [&](Piece piece) { return to_handlers(backend_.sent(), selected, piece); },
        [&](Piece piece) {
            backend_.fold(undivided(scalars), ranks_of_group(), block_at + piece.begin, piece.of(block));
        });

    const Index own = selected[levels_.rank()];
    const Index own_at = before(selected, levels_.rank());
    in_pieces<Piece>(
        *std::ranges::max_element(selected), length(levels_.groups().size()), backend_.rooms(),
        [&](Piece piece) { return to_owners(backend_.moment(), selected, piece); },
        [&](Piece piece) {
            backend_.fold_sums(scalars, groups(), piece.of(own),
                               backend_.moment() + own_at + std::min(piece.begin, own));
        });
}

void GroupFold::finish(std::size_t bucket, float* sums, const Scalars& scalars, Selected selected) {
    const Levels::Span handled = levels_.handled();
    backend_.fold_in(bucket, undivided(scalars), ranks_of_group(), before(selected, handled.begin),
                     values_of(selected, handled));
    to_owners(sums, selected, {0, all})->wait();
    backend_.fold_sums(scalars, groups(), selected[levels_.rank()],
                       sums + before(selected, levels_.rank()));
}

std::unique_ptr<Exchange> GroupFold::to_handlers(const void* payload, Selected selected, Piece piece) {
    const Levels::Group& group = levels_.own_group();
    const auto bytes = [this](Index count) { return static_cast<std::size_t>(count) * value_bytes_; };
    std::vector<Stretch> to(selected.size());
    std::vector<Stretch> from(selected.size());
    const Index mine = piece.of(values_of(selected, levels_.handled()));
    for (std::size_t j = 0; j < group.size; ++j) {
        const Levels::Span owners = levels_.handled(group, j);
        to[group.begin + j] = {bytes(before(selected, owners.begin) + piece.begin),
                               bytes(piece.of(values_of(selected, owners)))};
        from[group.begin + j] = {j * bytes(mine), bytes(mine)};
    }
    void* received = backend_.received(mine * ranks_of_group());
    return communicator_.start_stretches(Traffic::payload, payload, to, received, from);
}

std::unique_ptr<Exchange> GroupFold::to_owners(const float* sums, Selected selected, Piece piece) {
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(float); };
    std::vector<Stretch> to(selected.size());
    std::vector<Stretch> from(selected.size());
    const Levels::Span handled = levels_.handled();
    for (std::size_t owner = handled.begin; owner < handled.end; ++owner)
        to[owner] = {bytes(before(selected, owner) + piece.begin), bytes(piece.of(selected[owner]))};
    const Index mine = piece.of(selected[levels_.rank()]);
    for (std::size_t number = 0; number < levels_.groups().size(); ++number)
        from[levels_.handler(levels_.groups()[number], levels_.rank())] = {number * bytes(mine),
                                                                           bytes(mine)};
    void* received = backend_.received_sums(mine * groups());
    return communicator_.start_stretches(Traffic::payload, sums, to, received, from);
}

std::uint64_t GroupFold::bytes_sent(Selected selected) const {
    const Levels::Span handled = levels_.handled();
    const auto count = [](Index values) { return static_cast<std::uint64_t>(values); };
    const std::uint64_t to_handlers =
        count(std::reduce(selected.begin(), selected.end())) - count(values_of(selected, handled));
    std::uint64_t to_owners = 0;
    for (std::size_t owner = handled.begin; owner < handled.end; ++owner)
        to_owners += owner == levels_.rank() ? 0 : count(selected[owner]);
    return to_handlers * value_bytes_ + to_owners * sizeof(float);
}

} // namespace scape::distributed
