// Sums the global norm over ranks in the specification's order, wherever ranges are cut.
#include <truestep/distributed/dense/norm.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

#include <truestep/distributed/kernels.hpp>

namespace truestep::distributed::dense {

namespace {

/// The sum of the block sums in the fixed tree of section 5.
double tree_sum(std::vector<double> sums) {
    for (std::size_t count = sums.size(); count > 1; count = (count + 1) / 2) {
        for (std::size_t i = 0; i < count / 2; ++i)
            sums[i] = sums[2 * i] + sums[2 * i + 1];
        if (count % 2 == 1)
            sums[count / 2] = sums[count - 1];
    }
    return sums.front();
}

} // namespace

double square_sum(const float* values, Index size) {
    double sum = 0.0;
    host::square_sums(0, 1, values, size, &sum);
    return sum;
}

GlobalNorm::GlobalNorm(const Problem& problem, const Ownership& ownership)
    : whole_(static_cast<std::size_t>(problem.ranks)), cut_(whole_.size()), sharded_(ownership.sharded()) {
    const Layout layout = layout_of(problem);
    std::vector<std::size_t> first; // block of each tensor
    for (const Tensor& tensor : problem.tensors) {
        first.push_back(sizes_.size());
        for (Index begin = 0; begin < tensor.size(); begin += host::norm_block)
            sizes_.push_back(std::min(host::norm_block, tensor.size() - begin));
    }
    for (std::size_t rank = 0; rank < whole_.size(); ++rank) {
        Index in_packed = 0;
        for (const Piece& piece : ownership.pieces(static_cast<int>(rank)))
            for (Index at = piece.begin; at < piece.end;) {
                const Index in_tensor = at - layout.begin(piece.tensor);
                const Index in_block = in_tensor % host::norm_block;
                Part part{first[piece.tensor] + static_cast<std::size_t>(in_tensor / host::norm_block),
                          in_block, in_packed, 0};
                part.size = std::min(sizes_[part.block] - in_block, piece.end - at);
                (part.size == sizes_[part.block] ? whole_ : cut_)[rank].push_back(part);
                at += part.size;
                in_packed += part.size;
            }
    }
}

double GlobalNorm::of(std::vector<double> made, const std::vector<float>& mine, Communicator& ranks) const {
    if (!sharded_)
        return std::sqrt(tree_sum(std::move(made)));
    std::vector<std::size_t> sums_of;
    std::vector<std::size_t> values_of;
    std::size_t sums = 0;
    std::size_t values = 0;
    for (std::size_t rank = 0; rank < whole_.size(); ++rank) {
        std::size_t of_rank = 0;
        for (const Part& part : cut_[rank])
            of_rank += static_cast<std::size_t>(part.size);
        sums += whole_[rank].size();
        values += of_rank;
        sums_of.push_back(whole_[rank].size() * sizeof(double));
        values_of.push_back(of_rank * sizeof(float));
    }
    std::vector<double> all_sums(sums);
    std::vector<float> all_values(values);
    const auto with_sums =
        ranks.start_all_gather(Traffic::agreement, made.data(), all_sums.data(), sums_of);
    const auto with_values =
        ranks.start_all_gather(Traffic::agreement, mine.data(), all_values.data(), values_of);
    with_sums->wait();
    with_values->wait();
    std::vector<double> blocks(sizes_.size(), 0.0);
    std::vector<std::vector<float>> cut(sizes_.size());
    const double* sum = all_sums.data();
    const float* value = all_values.data();
    for (std::size_t rank = 0; rank < whole_.size(); ++rank) {
        for (const Part& part : whole_[rank])
            blocks[part.block] = *sum++;
        for (const Part& part : cut_[rank]) {
            cut[part.block].resize(static_cast<std::size_t>(sizes_[part.block]));
            std::copy_n(value, part.size, cut[part.block].begin() + part.in_block);
            value += part.size;
        }
    }
    for (std::size_t block = 0; block < cut.size(); ++block)
        if (!cut[block].empty())
            blocks[block] = square_sum(cut[block].data(), sizes_[block]);
    return std::sqrt(tree_sum(std::move(blocks)));
}

} // namespace truestep::distributed::dense
