// The vectors of dense training in the host's memory.
#include <truestep/distributed/dense/backend.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>

#include <truestep/distributed/dense/rules.hpp>
#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/workers.hpp>

namespace truestep::distributed::dense {

namespace {

using Floats = std::vector<float>;

class HostBackend final : public Backend {
  public:
    explicit HostBackend(int threads) : threads_(threads) {}

    void begin(const Problem& problem, const Ownership& ownership, int rank, State& state) override {
        problem_ = &problem;
        ownership_ = &ownership;
        rank_ = rank;
        state_ = &state;
        groups_ = groups_of(problem);
        parameters_.resize(static_cast<std::size_t>(layout_of(problem).size()));
        sums_.assign(1, Floats(parameters_.size()));
        mean_.resize(state.w.size());
    }

    bool add(std::span<const float> gradient, Index number) override {
        const auto size = static_cast<Index>(gradient.size());
        const auto plus = [&](const float* newer, Floats& sum) {
            everywhere(size, [&](Index begin, Index end) { host::add(begin, end, newer, sum.data()); });
        };
        // In a tree, this one closes as many nodes as its number ends in ones.
        const std::size_t level =
            problem_->order == Order::tree
                ? static_cast<std::size_t>(std::countr_one(static_cast<std::uint64_t>(number)))
                : 0;
        while (sums_.size() <= level)
            sums_.emplace_back(gradient.size());
        const bool first = problem_->order == Order::tree ? level == 0 : number == 0;
        if (first)
            std::ranges::copy(gradient, sums_[0].begin());
        else
            plus(gradient.data(), sums_[0]);
        for (std::size_t i = 1; i < level; ++i)
            plus(sums_[i - 1].data(), sums_[i]);
        if (level > 0)
            sums_[level].swap(sums_[level - 1]);
        return host::first_unacceptable(gradient.data(), 0, size) == size;
    }

    const void* sum(Index count) override {
        const float* const flat = sum_of_micro_batches(static_cast<std::uint64_t>(count));
        if (!ownership_->sharded() || ownership_->in_order())
            return flat;
        packed_.resize(parameters_.size());
        Index begin = 0;
        for (int rank = 0; rank < problem_->ranks; ++rank) {
            ownership_->pack(rank, flat, packed_.data() + begin);
            begin += ownership_->size(rank);
        }
        return packed_.data();
    }

    void* parts() override {
        parts_.resize(mean_.size() * static_cast<std::size_t>(problem_->ranks));
        return parts_.data();
    }

    void make_mean(const Merges& merges, float divisor) override {
        Scalars scalars;
        scalars.workers = divisor;
        const auto size = static_cast<Index>(mean_.size());
        everywhere(size, [&](Index begin, Index end) {
            for (const auto& [left, right] : merges)
                host::add(begin, end, parts_.data() + right * size, parts_.data() + left * size);
            host::fold(scalars, 1, begin, end, parts_.data(), size, mean_.data());
        });
    }

    std::vector<double> square_sums(const GlobalNorm::Parts& stretches) override {
        std::vector<double> sums;
        for (const GlobalNorm::Part& part : stretches)
            sums.push_back(square_sum(mean_.data() + part.in_packed, part.size));
        return sums;
    }

    std::vector<float> values(const GlobalNorm::Parts& stretches) override {
        Floats values;
        for (const GlobalNorm::Part& part : stretches)
            values.insert(values.end(), mean_.begin() + part.in_packed,
                          mean_.begin() + part.in_packed + part.size);
        return values;
    }

    void scale(float factor) override {
        for (float& value : mean_)
            value = value * factor;
    }

    void update(const std::vector<double>& rates, Index t) override {
        Index packed = 0;
        for (const Piece& piece : ownership_->pieces(rank_)) {
            const std::size_t index = groups_[piece.tensor];
            const Group& group = problem_->groups[index];
            const auto at = [packed](Floats& of) { return of.empty() ? nullptr : of.data() + packed; };
            const Vectors vectors{mean_.data() + packed, at(state_->w), at(state_->m), at(state_->v)};
            if (group.rule == Rule::muon)
                muon_step(group, rates[index], problem_->tensors[piece.tensor].shape, vectors);
            else
                everywhere(piece.size(), [&, step = elementwise_step(group, rates[index], t)](
                                             Index begin, Index end) { step(begin, end, vectors); });
            packed += piece.size();
        }
    }

    bool is_finite() override {
        const auto all = [](const Floats& values) {
            return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
        };
        return all(state_->w) && all(state_->m);
    }

    const void* own() override {
        if (!rounds())
            return state_->w.data();
        copies_.resize(state_->w.size());
        std::ranges::transform(state_->w, copies_.begin(), element::to_bf16);
        return copies_.data();
    }

    void* all() override {
        if (rounds()) {
            all_copies_.resize(parameters_.size());
            return all_copies_.data();
        }
        if (ownership_->in_order())
            return parameters_.data();
        packed_.resize(parameters_.size());
        return packed_.data();
    }

    void show() override {
        if (!ownership_->sharded()) {
            if (rounds())
                std::ranges::transform(copies_, parameters_.begin(), element::from_bf16);
            else
                std::ranges::copy(state_->w, parameters_.begin());
            return;
        }
        if (rounds()) {
            packed_.resize(parameters_.size());
            std::ranges::transform(all_copies_, packed_.begin(), element::from_bf16);
        } else if (ownership_->in_order()) {
            return;
        }
        Index begin = 0;
        for (int rank = 0; rank < problem_->ranks; ++rank) {
            ownership_->unpack(rank, packed_.data() + begin, parameters_.data());
            begin += ownership_->size(rank);
        }
    }

    std::span<const float> parameters() override { return parameters_; }
    void fetch(State& /*state*/) override {}

  private:
    [[nodiscard]] bool rounds() const { return problem_->copies == Copies::bf16; }

    const float* sum_of_micro_batches(std::uint64_t count) {
        if (problem_->order == Order::rank)
            return sums_[0].data();
        auto at = static_cast<std::size_t>(std::countr_zero(count));
        for (std::size_t level = at + 1; level < sums_.size(); ++level)
            if ((count >> level & 1U) != 0) {
                host::add(0, static_cast<Index>(parameters_.size()), sums_[at].data(), sums_[level].data());
                at = level;
            }
        return sums_[at].data();
    }

    /// Shares [0, size) among the threads.
    void everywhere(Index size, const std::function<void(Index begin, Index end)>& work) {
        constexpr Index unit = 4096;
        const Index threads = threads_.threads();
        const Index share = (size / unit + threads - 1) / threads * unit;
        threads_.run([&](int part) {
            const Index begin = std::min(size, part * share);
            const Index end = part + 1 == threads ? size : std::min(size, begin + share);
            if (begin < end)
                work(begin, end);
        });
    }

    Workers threads_;
    const Problem* problem_ = nullptr;
    const Ownership* ownership_ = nullptr;
    int rank_ = 0;
    State* state_ = nullptr;
    std::vector<std::size_t> groups_; ///< of each tensor
    Floats parameters_;
    /// With order tree, sum i is of 2^i micro-batches; with order rank there is one.
    std::vector<Floats> sums_;
    Floats packed_; ///< by owner, where that is not the parameters' order
    Floats parts_;  ///< what this rank owns, of all ranks
    Floats mean_;
    std::vector<std::uint16_t> copies_;
    std::vector<std::uint16_t> all_copies_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(int threads) {
    return std::make_unique<HostBackend>(threads);
}

} // namespace truestep::distributed::dense
