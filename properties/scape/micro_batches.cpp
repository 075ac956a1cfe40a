// The parts and buckets in which a case gives its ranks their gradients.
#include <truestep/properties/scape/case.hpp>

#include <algorithm>
#include <bit>
#include <numeric>

namespace truestep::properties::scape {

namespace {

/// Whether a rank gives this part. Of uneven ones it gives another number in each step, but always the
/// first.
bool gives(const Case& run, Index step, int part, int rank) {
    return !run.uneven || part <= (rank + step) % run.parts;
}

/// One part of several, or the whole. No sum of the parts has to be refused, however many there are. What a
/// rank does not give is `missing_part`.
Gradients part_of(const Case& run, Index step, int part) {
    float scale = run.data == problem::DataClass::dyadic ? static_cast<float>(run.workers) : 1.0F;
    if (run.data == problem::DataClass::limit)
        scale = 1.0F / static_cast<float>(std::bit_ceil(static_cast<unsigned>(run.parts)));
    const std::uint64_t seed = run.seed + 1'000'003 * static_cast<std::uint64_t>(part);
    Gradients g(static_cast<std::size_t>(run.workers),
                std::vector<float>(static_cast<std::size_t>(run.size())));
    for (int rank = 0; rank < run.workers; ++rank) {
        std::vector<float>& of_rank = g[static_cast<std::size_t>(rank)];
        if (!gives(run, step, part, rank)) {
            std::ranges::fill(of_rank, missing_part);
            continue;
        }
        if (rank == run.silent)
            continue;
        problem::fill_gradient(of_rank, run.data, seed, rank, step);
        if (scale != 1.0F)
            std::ranges::transform(of_rank, of_rank.begin(),
                                   [scale](float value) { return scale * value; });
    }
    return g;
}

/// A number that differs from tensor to tensor and step to step.
std::uint64_t mixed(std::uint64_t seed, Index step, std::size_t tensor) {
    std::uint64_t x = seed * 8191 + static_cast<std::uint64_t>(step) * 131 + tensor + 1;
    x *= 0x9e37'79b9'7f4a'7c15U;
    return (x ^ (x >> 29U)) * 0xbf58'476d'1ce4'e5b9U >> 32U;
}

std::vector<std::size_t> order_of(const Case& run, Index step) {
    std::vector<std::size_t> order(run.tensors.size());
    std::iota(order.rbegin(), order.rend(), std::size_t{0});
    if (run.cuts == CutRule::rebuilt && step > 1)
        std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(order.size() / 2),
                    order.end());
    if (run.cuts == CutRule::wild)
        std::ranges::sort(order, {}, [&](std::size_t tensor) { return mixed(run.seed, step, tensor); });
    return order;
}

} // namespace

problem::Groups groups_of(const Case& run) {
    problem::Groups groups;
    int left = run.groups.empty() ? 0 : run.workers;
    for (std::size_t turn = 0; left > 0; ++turn) {
        groups.push_back(std::min(left, run.groups[turn % run.groups.size()]));
        left -= groups.back();
    }
    return groups;
}

Gradients gradients_of(const Case& run, Index step) {
    Gradients sum = part_of(run, step, 0);
    for (int part = 1; part < run.parts; ++part) {
        const Gradients more = part_of(run, step, part);
        for (std::size_t rank = 0; rank < sum.size(); ++rank)
            for (std::size_t i = 0; i < sum[rank].size(); ++i)
                sum[rank][i] += more[rank][i];
    }
    return sum;
}

std::vector<Gradients> parts_of(const Case& run, Index step) {
    std::vector<Gradients> all;
    for (int part = 0; run.parts > 1 && part < run.parts; ++part)
        all.push_back(part_of(run, step, part));
    return all;
}

bool is_missing(const std::vector<float>& part) {
    return std::ranges::all_of(part, [](float value) {
        return std::bit_cast<std::uint32_t>(value) == std::bit_cast<std::uint32_t>(missing_part);
    });
}

Cut cut_of(const Case& run, Index step) {
    Cut cut;
    if (run.bucket_bytes == 0)
        return cut;
    const Index room = run.cuts == CutRule::rebuilt && step > 1 ? 2 * run.bucket_bytes : run.bucket_bytes;
    Index filled = 0;
    for (const std::size_t tensor : order_of(run, step)) {
        const Index bytes = run.tensors[tensor].size * static_cast<Index>(sizeof(float));
        if (bytes == 0 && run.cuts == CutRule::wild && mixed(run.seed, step, tensor) % 2 == 0)
            continue; // only tensors of at least one coordinate have to be in a bucket
        if (cut.empty() || filled + bytes > room) {
            cut.emplace_back();
            filled = 0;
        }
        cut.back().push_back(tensor);
        filled += bytes;
    }
    return cut;
}

} // namespace truestep::properties::scape
