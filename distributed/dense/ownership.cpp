// Cuts the model into ranges and whole matrices, each with the rank that updates it.
#include <truestep/distributed/dense/ownership.hpp>

#include <algorithm>

namespace truestep::distributed::dense {

namespace {

/// The products of an orthogonalization, by which owners of matrices are balanced.
double cost(const Tensor& tensor) {
    return static_cast<double>(tensor.size()) * static_cast<double>(std::ranges::min(tensor.shape));
}

} // namespace

Ownership::Ownership(const Problem& problem, bool sharded)
    : pieces_(static_cast<std::size_t>(problem.ranks)), sizes_(pieces_.size(), 0), sharded_(sharded) {
    const Layout layout = layout_of(problem);
    const std::vector<std::size_t> groups = groups_of(problem);
    const auto is_whole = [&](std::size_t tensor) {
        return problem.groups[groups[tensor]].rule == Rule::muon;
    };
    const auto add = [this](std::size_t rank, const Piece& piece) {
        if (piece.size() == 0)
            return;
        pieces_[rank].push_back(piece);
        sizes_[rank] += piece.size();
    };
    Index elementwise = 0;
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor)
        elementwise += is_whole(tensor) ? 0 : problem.tensors[tensor].size();
    const auto count = static_cast<Index>(problem.ranks);
    const Index share = std::max<Index>(1, (elementwise + count - 1) / count);
    std::vector<double> costs(pieces_.size(), 0.0);
    Index before = 0; // of elementwise coordinates
    for (std::size_t tensor = 0; tensor < problem.tensors.size(); ++tensor) {
        const Index begin = layout.begin(tensor);
        const Index end = layout.end(tensor);
        if (!sharded_) {
            for (std::size_t rank = 0; rank < pieces_.size(); ++rank)
                add(rank, {tensor, begin, end});
        } else if (is_whole(tensor)) {
            const auto least = std::ranges::min_element(costs);
            *least += cost(problem.tensors[tensor]);
            add(static_cast<std::size_t>(least - costs.begin()), {tensor, begin, end});
        } else {
            for (Index at = begin; at < end;) {
                const Index owner = before / share;
                const Index next = std::min(end, at + (owner + 1) * share - before);
                add(static_cast<std::size_t>(owner), {tensor, at, next});
                before += next - at;
                at = next;
            }
        }
    }
    Index expected = 0;
    for (const std::vector<Piece>& of_rank : pieces_)
        for (const Piece& piece : of_rank) {
            in_order_ = in_order_ && piece.begin == expected;
            expected = piece.end;
        }
}

} // namespace truestep::distributed::dense
