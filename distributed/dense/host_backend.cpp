// The vectors of dense training in the host's memory.
#include <truestep/distributed/dense/backend.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/dense/rules.hpp>
#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/workers.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed::dense {

namespace {

/// Values that stay in the first cache while all passes of a step go over them.
constexpr Index block = problem::tunable<Index>("dense_unit");

class HostBackend final : public Backend {
  public:
    explicit HostBackend(int threads) : threads_(threads) {}

    void begin(const Problem& problem, const Ownership& ownership, int rank, State& state) override {
        problem_ = &problem;
        ownership_ = &ownership;
        rank_ = rank;
        groups_ = groups_of(problem);
        size_ = static_cast<std::size_t>(layout_of(problem).size());
        for (const auto& [to, from] : {std::pair{&w_, &state.w}, {&m_, &state.m}, {&v_, &state.v}}) {
            to->assign(from->begin(), from->end());
            *from = {};
        }
        is_finite_ =
            host::finite(w_.data(), own_size()) && host::finite(m_.data(), static_cast<Index>(m_.size()));
        parameters_.resize(state_is_all() ? 0 : size_);
    }

    bool add(std::span<const float> gradient, Index number, bool lent) override {
        const auto size = static_cast<Index>(gradient.size());
        std::atomic<bool> acceptable = true;
        everywhere(size, [&](Index begin, Index end) {
            if (host::first_unacceptable(gradient.data(), begin, end) != end)
                acceptable = false;
        });
        lent_ = lent ? gradient.data() : nullptr;
        if (lent)
            return acceptable;
        const auto plus = [&](const float* newer, AlignedFloats& sum) {
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
            everywhere(size, [&](Index begin, Index end) {
                std::copy(gradient.data() + begin, gradient.data() + end, sums_[0].data() + begin);
            });
        else
            plus(gradient.data(), sums_[0]);
        for (std::size_t i = 1; i < level; ++i)
            plus(sums_[i - 1].data(), sums_[i]);
        if (level > 0)
            sums_[level].swap(sums_[level - 1]);
        return acceptable;
    }

    const void* sum(Index count) override {
        const float* const flat = lent_ ? lent_ : sum_of_micro_batches(static_cast<std::uint64_t>(count));
        received_ = flat;
        if (!ownership_->sharded() || ownership_->in_order())
            return flat;
        packed_.resize(size_);
        Index begin = 0;
        for (int rank = 0; rank < problem_->ranks; ++rank) {
            ownership_->pack(rank, flat, packed_.data() + begin);
            begin += ownership_->size(rank);
        }
        return packed_.data();
    }

    void* parts() override {
        if (problem_->ranks == 1) // whose share is in order
            return const_cast<float*>(
                received_); // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
        parts_.resize(w_.size() * static_cast<std::size_t>(problem_->ranks));
        received_ = parts_.data();
        return parts_.data();
    }

    // Who needs no mean as a whole gets it block by block, as update() goes over memory.
    void make_mean(const Merges& merges, float divisor) override {
        merges_ = &merges;
        divisor_ = divisor;
        factor_ = 1.0F;
        mean_is_made_ = false;
    }

    std::vector<double> square_sums(const GlobalNorm::Parts& stretches) override {
        make_whole_mean();
        std::vector<double> sums;
        for (const GlobalNorm::Part& part : stretches)
            sums.push_back(square_sum(mean_.data() + part.in_packed, part.size));
        return sums;
    }

    std::vector<float> values(const GlobalNorm::Parts& stretches) override {
        make_whole_mean();
        std::vector<float> values;
        for (const GlobalNorm::Part& part : stretches)
            values.insert(values.end(), mean_.begin() + part.in_packed,
                          mean_.begin() + part.in_packed + part.size);
        return values;
    }

    void scale(float factor) override { factor_ = factor; }

    void update(const std::vector<double>& rates, Index t) override {
        // A non-finite moment makes its parameter non-finite in the same step, by every rule.
        std::atomic<bool> is_finite = true;
        const auto look = [&](Index begin, Index end) {
            if (!host::finite(w_.data() + begin, end - begin))
                is_finite = false;
        };
        Index packed = 0;
        for (const Piece& piece : ownership_->pieces(rank_)) {
            const std::size_t index = groups_[piece.tensor];
            const Group& group = problem_->groups[index];
            const auto from = [&](const float* mean, Index at) {
                const auto of = [at](AlignedFloats& all) {
                    return all.empty() ? nullptr : all.data() + at;
                };
                return Vectors{mean, of(w_), of(m_), of(v_)};
            };
            if (group.rule == Rule::muon) {
                matrix_.resize(static_cast<std::size_t>(piece.size()));
                everywhere(piece.size(), [&](Index begin, Index end) {
                    clipped_mean(packed + begin, packed + end, matrix_.data() + begin);
                });
                muon_step(group, rates[index], problem_->tensors[piece.tensor].shape,
                          from(matrix_.data(), packed));
                look(packed, packed + piece.size());
            } else {
                const ElementwiseStep step = elementwise_step(group, rates[index], t);
                everywhere(piece.size(), [&](Index begin, Index end) {
                    std::array<float, block>
                        mean; // NOLINT(cppcoreguidelines-pro-type-member-init): written first
                    const float* g =
                        received_ + packed + begin; // the mean itself, if nothing is done to it
                    if (problem_->ranks > 1 || divisor_ != 1.0F || factor_ != 1.0F) {
                        clipped_mean(packed + begin, packed + end, mean.data());
                        g = mean.data();
                    }
                    step(0, end - begin, from(g, packed + begin));
                    look(packed + begin, packed + end);
                });
            }
            packed += piece.size();
        }
        is_finite_ = is_finite;
    }

    bool is_finite() override { return is_finite_; }

    const void* own() override {
        if (!rounds())
            return w_.data();
        copies_.resize(w_.size());
        std::ranges::transform(w_, copies_.begin(), element::to_bf16);
        return copies_.data();
    }

    void* all() override {
        if (state_is_all())
            return w_.data();
        if (rounds()) {
            all_copies_.resize(size_);
            return all_copies_.data();
        }
        if (ownership_->in_order())
            return parameters_.data();
        packed_.resize(size_);
        return packed_.data();
    }

    void show() override {
        if (state_is_all())
            return;
        if (!ownership_->sharded()) {
            std::ranges::transform(copies_, parameters_.begin(), element::from_bf16);
            return;
        }
        if (rounds()) {
            packed_.resize(size_);
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

    std::span<const float> parameters() override { return state_is_all() ? w_ : parameters_; }
    void fetch(State& state) override {
        for (const auto& [to, from] : {std::pair{&state.w, &w_}, {&state.m, &m_}, {&state.v, &v_}})
            to->assign(from->begin(), from->end());
    }

  private:
    [[nodiscard]] bool rounds() const { return problem_->copies == Copies::bf16; }
    [[nodiscard]] Index own_size() const { return static_cast<Index>(w_.size()); }
    /// Whether w_ are all parameters, as the next gradient sees them.
    [[nodiscard]] bool state_is_all() const {
        return !rounds() && (!ownership_->sharded() || problem_->ranks == 1);
    }

    void mean_of(Index begin, Index end, float* mean) {
        Scalars scalars;
        scalars.workers = divisor_;
        const bool in_rank_order = problem_->order == Order::rank;
        if (!in_rank_order)
            for (const auto& [left, right] : *merges_)
                host::add(begin, end, received_ + right * own_size(), parts_.data() + left * own_size());
        host::fold(scalars, in_rank_order ? problem_->ranks : 1, 0, end - begin, received_ + begin,
                   own_size(), mean);
    }
    void make_whole_mean() {
        if (std::exchange(mean_is_made_, true))
            return;
        mean_.resize(w_.size());
        everywhere(own_size(), [&](Index begin, Index end) { mean_of(begin, end, mean_.data() + begin); });
    }
    void clipped_mean(Index begin, Index end, float* to) {
        if (!mean_is_made_)
            mean_of(begin, end, to);
        else
            std::transform(mean_.data() + begin, mean_.data() + end, to,
                           [&](float value) { return value * factor_; });
    }

    const float* sum_of_micro_batches(std::uint64_t count) {
        if (problem_->order == Order::rank)
            return sums_[0].data();
        auto at = static_cast<std::size_t>(std::countr_zero(count));
        for (std::size_t level = at + 1; level < sums_.size(); ++level)
            if ((count >> level & 1U) != 0) {
                host::add(0, static_cast<Index>(size_), sums_[at].data(), sums_[level].data());
                at = level;
            }
        return sums_[at].data();
    }

    /// Shares [0, size) among the threads, which work on one block after another.
    void everywhere(Index size, const std::function<void(Index begin, Index end)>& work) {
        const Index threads = threads_.threads();
        const Index share = (size / block + threads - 1) / threads * block;
        threads_.run([&](int part) {
            const Index begin = std::min(size, part * share);
            const Index end = part + 1 == threads ? size : std::min(size, begin + share);
            for (Index at = begin; at < end; at += block)
                work(at, std::min(end, at + block));
        });
    }

    Workers threads_;
    const Problem* problem_ = nullptr;
    const Ownership* ownership_ = nullptr;
    int rank_ = 0;
    std::size_t size_ = 0; ///< of the model
    AlignedFloats w_;
    AlignedFloats m_;
    AlignedFloats v_;
    bool is_finite_ = true;
    std::vector<std::size_t> groups_; ///< of each tensor
    AlignedFloats parameters_;        ///< none where w_ are all of them
    /// With order tree, sum i is of 2^i micro-batches; with order rank there is one.
    std::vector<AlignedFloats> sums_;
    const float* lent_ = nullptr;     ///< the caller's gradient, in the place of a sum
    AlignedFloats packed_;            ///< by owner, where that is not the parameters' order
    AlignedFloats parts_;             ///< what this rank owns, of all ranks
    const float* received_ = nullptr; ///< the parts, or the sum where nothing travels
    const Merges* merges_ = nullptr;
    float divisor_ = 1.0F;
    float factor_ = 1.0F;
    bool mean_is_made_ = false;
    AlignedFloats mean_;
    std::vector<float> matrix_; ///< the mean of one of Muon's
    std::vector<std::uint16_t> copies_;
    std::vector<std::uint16_t> all_copies_;
};

} // namespace

std::unique_ptr<Backend> make_host_backend(int threads) {
    return std::make_unique<HostBackend>(threads);
}

} // namespace truestep::distributed::dense
