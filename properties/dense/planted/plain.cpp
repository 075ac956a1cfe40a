// A second, plain implementation of dense training, with one known bug in it or none.
#include "plain.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include <truestep/distributed/dense/agreement.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/reference/dense/reference.hpp>

#include "plain_checkpoint.hpp"
#include "plain_rules.hpp"

namespace truestep::properties::dense {

namespace {

using distributed::Traffic;

/// A sum of the micro-batches [begin, end).
struct Sum {
    Index begin;
    Index end;
    Floats values;
};

Floats plus(const Floats& left, const Floats& right) {
    Floats sum(left.size());
    for (std::size_t i = 0; i < sum.size(); ++i)
        sum[i] = left[i] + right[i];
    return sum;
}

Floats ascending(const std::vector<Sum>& sums) {
    Floats all = sums.front().values;
    for (std::size_t i = 1; i < sums.size(); ++i)
        all = plus(all, sums[i].values);
    return all;
}

/// Joins neighbours that are the two halves of a node, level by level; `end` is that of all
/// micro-batches of the step.
Floats in_tree(std::vector<Sum> sums, Index end) {
    for (Index width = 1; width < end; width *= 2)
        for (std::size_t i = 0; i + 1 < sums.size(); ++i) {
            Sum& left = sums[i];
            const Sum& right = sums[i + 1];
            if (left.begin % (2 * width) == 0 && left.end == left.begin + width &&
                right.end == std::min(left.begin + 2 * width, end)) {
                left = {left.begin, right.end, plus(left.values, right.values)};
                sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            }
        }
    return ascending(sums); // one, unless the split is none that the tree allows
}

class Plain final : public RankUnderTest {
  public:
    Plain(Bug bug, Beginning beginning, distributed::Communicator& ranks)
        : bug_(bug), beginning_(std::move(beginning)), problem_(beginning_.problem), ranks_(ranks),
          layout_(layout_of(problem_)), size_(static_cast<std::size_t>(layout_.size())),
          rules_(bug, problem_), owners_(rules_.owners(beginning_.sharded)) {
        if (bug_ != group_without_tensors_allowed)
            check(problem_);
        std::uint64_t sum = 0;
        for (const float value : beginning_.parameters)
            sum = sum * 31 + std::bit_cast<std::uint32_t>(value);
        const distributed::dense::Words words{
            {"sharded", beginning_.sharded ? "true" : "false"},
            {"parameters with sum", std::to_string(bug_ == parameters_not_compared ? 0 : sum)}};
        if (bug_ != settings_not_compared)
            run_ = distributed::dense::agree_on(problem_, words, {}, ranks_);
        if (beginning_.folder.empty())
            state_ = {0, beginning_.parameters, Floats(size_), Floats(size_)};
        else
            state_ = load_plain(bug_, beginning_.folder, problem_, own());
        if (beginning_.spoiled && !own().empty())
            state_.m[own().back()] = std::numeric_limits<float>::infinity();
        if (bug_ != settings_not_compared && bug_ != steps_not_compared)
            distributed::dense::agree_on(problem_, {{"the step", std::to_string(state_.steps)}}, {},
                                         ranks_);
        halt_unless_finite();
        show(true);
    }

    void add(std::span<const float> gradient) override {
        for (const float value : gradient)
            acceptable_ = acceptable_ && std::abs(value) <= 0x1p56F;
        gradients_.emplace_back(gradient.begin(), gradient.end());
    }

    bool step(const std::vector<double>& rates) override {
        try {
            return step_with_all(rates);
        } catch (const distributed::Aborted&) {
            if (bug_ != goes_on_alone)
                throw;
            gradients_.clear();
            return true;
        }
    }

    Floats parameters() const override { return shown_; }

    Shard shard() const override {
        Shard shard{state_.steps, {}, {}, {}, {}};
        for (const std::size_t i : own()) {
            const auto at = static_cast<Index>(i);
            if (shard.pieces.empty() || shard.pieces.back()[1] != at)
                shard.pieces.push_back({at, at});
            ++shard.pieces.back()[1];
            shard.w.push_back(state_.w[i]);
            shard.m.push_back(state_.m[i]);
            shard.v.push_back(state_.v[i]);
        }
        return shard;
    }

    void save(const std::filesystem::path& folder) const override {
        save_plain(folder, state_, own(), {ranks_.rank(), problem_.ranks, run_, settings_of(problem_)});
    }

  private:
    /// The coordinates that a rank owns, ascending.
    [[nodiscard]] std::vector<std::size_t> of_rank(int rank) const {
        std::vector<std::size_t> all;
        for (std::size_t i = 0; i < size_; ++i)
            if (owners_[i] == rank || owners_[i] < 0)
                all.push_back(i);
        return all;
    }
    [[nodiscard]] std::vector<std::size_t> own() const { return of_rank(ranks_.rank()); }

    [[nodiscard]] bool all_of(bool here) {
        const auto all = gather_records(ranks_, static_cast<std::uint8_t>(here ? 1 : 0));
        return std::ranges::count(all, 0) == 0;
    }

    bool step_with_all(const std::vector<double>& rates) {
        const int count = problem_.micro_batches[static_cast<std::size_t>(ranks_.rank())];
        std::string fault =
            static_cast<int>(gradients_.size()) == count ? "" : "a micro-batch is missing; add it";
        try {
            check_rates(problem_, rates);
        } catch (const Error& error) {
            fault = error.what();
        }
        if (bug_ == refuses_alone && !fault.empty())
            throw Error(fault);
        const bool all_fine = distributed::dense::agree_on_step(
            problem_, state_.steps + 1,
            bug_ == rates_not_compared ? std::vector<double>(rates.size()) : rates, acceptable_, fault,
            ranks_);
        const bool here = std::exchange(acceptable_, true);
        if (bug_ == refused_by_one_rank ? false : !all_fine) {
            gradients_.clear();
            state_.steps += bug_ == refused_counts ? 1 : 0;
            if (bug_ == refused_moves_moments)
                for (float& value : state_.m)
                    value = value * 0.5F;
            return false;
        }
        if (!here)
            for (Floats& gradient : gradients_)
                std::ranges::fill(gradient, 0.0F);
        Floats mean = mean_of(local_sum());
        clip(mean);
        ++state_.steps;
        std::vector<std::size_t> updated = own();
        if (bug_ == thread_share_lost && beginning_.threads > 1 && !updated.empty())
            updated.pop_back();
        rules_.update(rates, mean, updated, state_);
        halt_unless_finite();
        show(false);
        return here;
    }

    void halt_unless_finite() {
        bool finite = true;
        for (const std::size_t i : own())
            finite = finite && std::isfinite(state_.w[i]) && std::isfinite(state_.m[i]);
        if (!all_of(finite) && bug_ != does_not_halt)
            throw Halted("halted: a parameter is not finite");
    }

    [[nodiscard]] Index first() const { return first_micro_batch(problem_, ranks_.rank()); }

    Floats local_sum() {
        if (bug_ == contribution_lost && ranks_.rank() > 0)
            std::fill_n(gradients_.back().begin(), layout_.end(0), 0.0F);
        std::vector<Sum> sums;
        for (const Floats& gradient : gradients_)
            sums.push_back({first() + static_cast<Index>(sums.size()),
                            first() + static_cast<Index>(sums.size()) + 1, gradient});
        gradients_.clear();
        const bool tree = problem_.order == Order::tree && bug_ != micro_batches_before_tree;
        Floats sum = tree ? in_tree(sums, micro_batches_of(problem_)) : ascending(sums);
        if (bug_ == gradients_kept) {
            if (!kept_.empty())
                sum = plus(kept_, sum);
            kept_ = sum;
        }
        if (bug_ == clipped_before_mean && problem_.clip_norm > 0.0)
            for (const float factor = factor_of(sum); float& value : sum)
                value = value * factor;
        return sum;
    }

    /// Sends each owner its part and adds what this rank owns; elsewhere this rank's sum remains.
    Floats mean_of(const Floats& sum) {
        const auto count = static_cast<std::size_t>(problem_.ranks);
        const std::vector<std::size_t> mine = own();
        Floats received(mine.size() * count);
        const std::vector<std::size_t> from(count, mine.size() * sizeof(float));
        if (!beginning_.sharded) {
            ranks_.start_all_gather(Traffic::gradient, sum.data(), received.data(), from)->wait();
        } else {
            Floats sent;
            std::vector<std::size_t> to;
            for (int rank = 0; rank < problem_.ranks; ++rank) {
                const std::vector<std::size_t> theirs = of_rank(rank);
                for (const std::size_t i : theirs)
                    sent.push_back(sum[i]);
                to.push_back(theirs.size() * sizeof(float));
            }
            ranks_.start_all_to_all(Traffic::gradient, sent.data(), to, received.data(), from)->wait();
        }
        std::vector<Sum> parts;
        for (int rank = 0; rank < problem_.ranks; ++rank) {
            const Index begin = first_micro_batch(problem_, rank);
            const auto part = received.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank;
            parts.push_back({begin, begin + problem_.micro_batches[static_cast<std::size_t>(rank)],
                             Floats(part, part + static_cast<std::ptrdiff_t>(mine.size()))});
        }
        const bool tree = problem_.order == Order::tree && bug_ != ranks_order_in_tree;
        const Floats all = tree ? in_tree(parts, micro_batches_of(problem_)) : ascending(parts);
        auto divisor = static_cast<float>(divisor_of(problem_));
        divisor = bug_ == sum_for_mean            ? 1.0F
                  : bug_ == divided_by_size       ? static_cast<float>(size_)
                  : bug_ == divided_by_ranks_only ? static_cast<float>(problem_.ranks)
                  : bug_ == accumulation_ignored  ? static_cast<float>(micro_batches_of(problem_))
                                                  : divisor;
        Floats mean = sum;
        for (float& value : mean)
            value = value / divisor;
        for (std::size_t at = 0; at < mine.size(); ++at)
            if (!is_beyond_the_border(mine[at]))
                mean[mine[at]] = all[at] / divisor;
        return mean;
    }

    /// The part of an owner's matrix that lies in another rank's range, and is not reduced.
    [[nodiscard]] bool is_beyond_the_border(std::size_t index) const {
        const auto range = static_cast<int>(index * static_cast<std::size_t>(problem_.ranks) / size_);
        return bug_ == cut_matrix && beginning_.sharded && range != ranks_.rank() &&
               is_muon(problem_, layout_.tensor_at(static_cast<Index>(index)));
    }

    [[nodiscard]] float factor_of(const Floats& values) const {
        const double norm = reference::dense::GlobalNorm<float>::of(
            Eigen::Map<const reference::Vector<float>>(values.data(), static_cast<Index>(values.size())),
            layout_);
        if (bug_ == clip_scales_up)
            return static_cast<float>(problem_.clip_norm / (norm + 1e-6));
        return reference::dense::clip_factor<float>(problem_.clip_norm, norm);
    }

    void clip(Floats& mean) {
        if (problem_.clip_norm == 0.0 || bug_ == clipped_before_mean)
            return;
        Floats whole(size_);
        for (const std::size_t i : own())
            whole[i] = mean[i];
        if (bug_ != clipped_by_own_norm)
            gather(Traffic::agreement, whole);
        Floats factors(size_, factor_of(whole));
        if (bug_ == clipped_by_tensor)
            for (std::size_t tensor = 0; tensor < layout_.tensors().size(); ++tensor) {
                Floats alone(size_);
                std::copy(whole.begin() + layout_.begin(tensor), whole.begin() + layout_.end(tensor),
                          alone.begin() + layout_.begin(tensor));
                std::fill(factors.begin() + layout_.begin(tensor), factors.begin() + layout_.end(tensor),
                          factor_of(alone));
            }
        for (std::size_t i = 0; i < size_; ++i)
            mean[i] = mean[i] * factors[i];
    }

    /// Replaces what others own by their values.
    template <class Value>
    void gather(Traffic traffic, std::vector<Value>& values) {
        if (!beginning_.sharded)
            return;
        std::vector<Value> mine;
        for (const std::size_t i : own())
            mine.push_back(values[i]);
        std::vector<std::size_t> sizes;
        for (int rank = 0; rank < problem_.ranks; ++rank)
            sizes.push_back(of_rank(rank).size() * sizeof(Value));
        std::vector<Value> all(size_);
        ranks_.start_all_gather(traffic, mine.data(), all.data(), sizes)->wait();
        std::size_t at = 0;
        for (int rank = 0; rank < problem_.ranks; ++rank)
            for (const std::size_t i : of_rank(rank))
                values[i] = all[at++];
    }

    void show(bool starts) {
        const Floats last = shown_;
        shown_ = state_.w;
        if (problem_.copies == Copies::bf16) {
            std::vector<std::uint16_t> copies;
            for (const float w : state_.w) {
                const auto bits = std::bit_cast<std::uint32_t>(w);
                const std::uint32_t nearest = bits + 0x7fffU + ((bits >> 16U) & 1U);
                copies.push_back(
                    static_cast<std::uint16_t>((bug_ == copies_cut_off ? bits : nearest) >> 16U));
            }
            if (bug_ != copies_travel_whole)
                gather(Traffic::parameters, copies);
            for (std::size_t i = 0; i < size_; ++i)
                shown_[i] = std::bit_cast<float>(static_cast<std::uint32_t>(copies[i]) << 16U);
            if (bug_ == copies_travel_whole)
                gather(Traffic::parameters, shown_);
            if (bug_ == masters_from_copies && !starts)
                state_.w = shown_;
        } else {
            gather(Traffic::parameters, shown_);
        }
        if (bug_ == own_parameters_stale && !starts && ranks_.rank() == 1)
            for (std::size_t i = 0; i < size_; ++i)
                if (owners_[i] != 1)
                    shown_[i] = last[i];
    }

    Bug bug_;
    Beginning beginning_;
    Problem problem_;
    distributed::Communicator& ranks_;
    problem::Layout layout_;
    std::size_t size_;
    PlainRules rules_;
    std::vector<int> owners_; ///< of each coordinate; -1: all ranks
    PlainState state_;        ///< of all coordinates, of which only those owned are right
    std::vector<Floats> gradients_;
    Floats kept_; ///< of the step before, for a known bug
    bool acceptable_ = true;
    Index run_ = 0;
    Floats shown_;
};

} // namespace

std::unique_ptr<RankUnderTest> begin_plain(Bug bug, const Beginning& beginning,
                                           distributed::Communicator& ranks) {
    return std::make_unique<Plain>(bug, beginning, ranks);
}

} // namespace truestep::properties::dense
