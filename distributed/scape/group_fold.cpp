#include "group_fold.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <utility>

namespace scape::distributed {

/// Where each owner's values stand among all that are packed.
class GroupFold::Places {
  public:
    explicit Places(Selected selected) : ends_(selected.size() + 1, 0) {
        std::partial_sum(selected.begin(), selected.end(), ends_.begin() + 1);
    }
    [[nodiscard]] std::size_t owners() const { return ends_.size() - 1; }
    [[nodiscard]] Index begin(std::size_t owner) const { return ends_[owner]; }
    [[nodiscard]] Index count(std::size_t owner) const { return ends_[owner + 1] - ends_[owner]; }
    [[nodiscard]] Index count(Levels::Span of) const { return ends_[of.end] - ends_[of.begin]; }
    [[nodiscard]] Index all() const { return ends_.back(); }
    [[nodiscard]] Index largest() const {
        Index largest = 0;
        for (std::size_t owner = 0; owner < owners(); ++owner)
            largest = std::max(largest, count(owner));
        return largest;
    }

  private:
    std::vector<Index> ends_; ///< of the owner before
};

namespace {

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
        Piece piece{begin, length};
        auto exchange = start(piece);
        under_way.emplace_back(piece, std::move(exchange));
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
    const Places places(selected);
    const Index block = places.count(levels_.handled());
    const Index block_at = places.begin(levels_.handled().begin);
    in_pieces<Piece>(
        largest_block(places), length(levels_.largest_group()), backend_.rooms(),
        [&](const Piece& piece) { return to_handlers(backend_.sent(), places, piece); },
        [&](const Piece& piece) {
            backend_.fold(undivided(scalars), ranks_of_group(), block_at + piece.begin, piece.of(block));
        });

    const Index own = places.count(levels_.rank());
    float* const means = backend_.moment() + places.begin(levels_.rank());
    in_pieces<Piece>(
        places.largest(), length(levels_.groups().size()), backend_.rooms(),
        [&](Piece& piece) { return to_owners(backend_.moment(), places, piece); },
        [&](const Piece& piece) {
            backend_.fold_sums(scalars, groups(), piece.of(own), piece.sums,
                               means + std::min(piece.begin, own));
        });
}

std::unique_ptr<Exchange> GroupFold::start(const void* payload, Selected selected) {
    return to_handlers(payload, Places(selected), {});
}

void GroupFold::finish(std::size_t bucket, float* sums, const Scalars& scalars, Selected selected) {
    const Places places(selected);
    const Levels::Span handled = levels_.handled();
    backend_.fold_in(bucket, undivided(scalars), ranks_of_group(), places.begin(handled.begin),
                     places.count(handled));
    Piece whole;
    to_owners(sums, places, whole)->wait();
    backend_.fold_sums(scalars, groups(), places.count(levels_.rank()), whole.sums,
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
    std::vector<Stretch> to(places.owners());
    std::vector<Stretch> from(places.owners());
    const Index mine = piece.of(places.count(levels_.handled()));
    for (std::size_t j = 0; j < group.size; ++j) {
        const Levels::Span owners = levels_.handled(group, j);
        to[group.begin + j] = {bytes(places.begin(owners.begin) + piece.begin),
                               bytes(piece.of(places.count(owners)))};
        from[group.begin + j] = {j * bytes(mine), bytes(mine)};
    }
    void* received = backend_.received(mine * ranks_of_group());
    return communicator_.start_stretches(Traffic::payload, payload, to, received, from);
}

std::unique_ptr<Exchange> GroupFold::to_owners(const float* sums, const Places& places, Piece& piece) {
    const auto bytes = [](Index count) { return static_cast<std::size_t>(count) * sizeof(float); };
    std::vector<Stretch> to(places.owners());
    std::vector<Stretch> from(places.owners());
    const auto [first, last] = levels_.handled();
    for (std::size_t owner = first; owner < last; ++owner)
        to[owner] = {bytes(places.begin(owner) + piece.begin), bytes(piece.of(places.count(owner)))};
    const Index mine = piece.of(places.count(levels_.rank()));
    for (std::size_t number = 0; number < levels_.groups().size(); ++number)
        from[levels_.handler(levels_.groups()[number], levels_.rank())] = {number * bytes(mine),
                                                                           bytes(mine)};
    piece.sums = backend_.received_sums(mine * groups());
    return communicator_.start_stretches(Traffic::payload, sums, to, piece.sums, from);
}

std::uint64_t GroupFold::bytes_sent(Selected selected) const {
    const Places places(selected);
    const auto [first, last] = levels_.handled();
    const Index handled = places.count({first, last});
    const bool own = levels_.rank() >= first && levels_.rank() < last;
    return static_cast<std::uint64_t>(places.all() - handled) * value_bytes_ +
           static_cast<std::uint64_t>(handled - (own ? places.count(levels_.rank()) : 0)) * sizeof(float);
}

} // namespace scape::distributed
