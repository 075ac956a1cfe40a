// Takes one rank's step of dense training: sums, mean, clip, update, all-gather.
#include <truestep/distributed/dense/worker.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/value_digest.hpp>

#include "norm.hpp"
#include "rules.hpp"
#include <truestep/distributed/dense/agreement.hpp>

namespace truestep::distributed::dense {

namespace {

using Floats = std::vector<float>;

/// A rank's micro-batches: a node of the tree, or part of one.
struct Node {
    Index begin;
    Index end;
    int rank;
};

/// The additions over ranks of the tree over [begin, end), whose borders are those of ranks.
int merges_of(const std::vector<Node>& nodes, Index begin, Index end,
              std::vector<std::pair<int, int>>& merges) {
    for (const Node& node : nodes)
        if (node.begin == begin && node.end == end)
            return node.rank;
    const auto width = static_cast<Index>(std::bit_ceil(static_cast<std::uint64_t>(end - begin))) / 2;
    const int left = merges_of(nodes, begin, begin + width, merges);
    const int right = merges_of(nodes, begin + width, end, merges);
    merges.emplace_back(left, right);
    return left;
}

std::vector<std::pair<int, int>> merges_of(const Problem& problem) {
    std::vector<std::pair<int, int>> merges;
    std::vector<Node> nodes;
    Index begin = 0;
    for (int rank = 0; rank < problem.ranks; ++rank) {
        const Index end = begin + problem.micro_batches[static_cast<std::size_t>(rank)];
        nodes.push_back({begin, end, rank});
        begin = end;
    }
    if (problem.order == Order::tree)
        merges_of(nodes, 0, begin, merges);
    else
        for (int rank = 1; rank < problem.ranks; ++rank)
            merges.emplace_back(0, rank);
    return merges;
}

bool all_of_ranks(Communicator& ranks, bool here) {
    const auto all = gather_records(ranks, static_cast<std::uint8_t>(here ? 1 : 0));
    return std::ranges::all_of(all, [](std::uint8_t one) { return one == 1; });
}

bool any_first_moment(const Problem& problem) {
    return std::ranges::any_of(problem.groups, [](const Group& group) { return has_first_moment(group); });
}

bool any_second_moment(const Problem& problem) {
    return std::ranges::any_of(problem.groups, [](const Group& group) { return is_adam(group.rule); });
}

/// What `act` throws as bad input, or "".
std::string fault_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

/// The state that this rank makes, once all ranks agree. A rank that cannot make one tells the others
/// why.
State agreed(const Problem& problem, const Options& options, Communicator& ranks, Words more,
             const std::function<State()>& make) {
    State state;
    const std::string fault = fault_of([&] {
        check(problem);
        if (problem.ranks != ranks.size())
            throw Error("the problem has " + std::to_string(problem.ranks) + " ranks, and " +
                        std::to_string(ranks.size()) + " were started; start as many");
        state = make();
    });
    more.emplace_back("sharded", options.sharded ? "true" : "false");
    more.emplace_back("the step", std::to_string(state.steps));
    state.run = agree_on(problem, more, fault, ranks);
    return state;
}

State checked(const Problem& problem, const Options& options, int rank, State state) {
    const auto own = static_cast<std::size_t>(Ownership(problem, options.sharded).size(rank));
    const auto held = [&](bool has) { return has ? own : 0; };
    if (state.w.size() != own || state.m.size() != held(any_first_moment(problem)) ||
        state.v.size() != held(any_second_moment(problem)))
        throw Error("the state is not that of rank " + std::to_string(rank) +
                    ", its ownership and its rules; give the one that this rank had, or load a checkpoint");
    return state;
}

} // namespace

State first_state(const Problem& problem, const Ownership& ownership, int rank,
                  std::span<const float> parameters) {
    if (static_cast<Index>(parameters.size()) != layout_of(problem).size())
        throw Error("there are " + std::to_string(parameters.size()) + " parameters, and the model has " +
                    std::to_string(layout_of(problem).size()) + "; give all of them");
    State state;
    const auto size = static_cast<std::size_t>(ownership.size(rank));
    state.w.resize(size);
    ownership.pack(rank, parameters.data(), state.w.data());
    if (any_first_moment(problem))
        state.m.assign(size, 0.0F);
    if (any_second_moment(problem))
        state.v.assign(size, 0.0F);
    return state;
}

Worker::Worker(Problem problem, std::span<const float> parameters, Communicator& communicator,
               Options options)
    : Worker(Agreed{agreed(problem, options, communicator,
                           {{"parameters with digest", std::to_string(problem::digest_of(parameters))}},
                           [&] {
                               return first_state(problem, Ownership(problem, options.sharded),
                                                  communicator.rank(), parameters);
                           })},
             problem, communicator, options) {}

Worker::Worker(Problem problem, State state, Communicator& communicator, Options options)
    : Worker(
          Agreed{agreed(problem, options, communicator, {},
                        [&] { return checked(problem, options, communicator.rank(), std::move(state)); })},
          problem, communicator, options) {}

Worker::Worker(Agreed agreed, Problem problem, Communicator& communicator, Options options)
    : problem_(std::move(problem)), options_(options), communicator_(communicator),
      ownership_(problem_, options.sharded), norm_(std::make_unique<GlobalNorm>(problem_, ownership_)),
      threads_(options.threads), groups_(groups_of(problem_)), state_(std::move(agreed.state)),
      merges_(merges_of(problem_)) {
    mapl::one_thread_unless_asked();
    parameters_.resize(static_cast<std::size_t>(layout_of(problem_).size()));
    sums_.emplace_back(parameters_.size());
    mean_.resize(state_.w.size());
    halt_unless_finite();
    gather();
}

Worker::~Worker() = default;

void Worker::everywhere(Index size, const std::function<void(Index, Index)>& work) {
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

void Worker::must_be_able_to_go_on() const {
    if (!ended_.empty())
        throw Error(ended_ + "; start again from a checkpoint");
}

void Worker::add(std::span<const float> gradient) {
    must_be_able_to_go_on();
    const int all = problem_.micro_batches[static_cast<std::size_t>(communicator_.rank())];
    if (added_ == all)
        throw Error("the step has its " + std::to_string(all) +
                    " micro-batches; end it before another one");
    if (gradient.size() != parameters_.size())
        throw Error("the gradient has " + std::to_string(gradient.size()) + " values; the model has " +
                    std::to_string(parameters_.size()) + " parameters");
    const auto size = static_cast<Index>(gradient.size());
    acceptable_ = acceptable_ && host::first_unacceptable(gradient.data(), 0, size) == size;
    const auto plus = [&](const float* newer, Floats& sum) {
        everywhere(size, [&](Index begin, Index end) { host::add(begin, end, newer, sum.data()); });
    };
    // In a tree, this one closes as many nodes as its number ends in ones.
    const std::size_t level =
        problem_.order == Order::tree
            ? static_cast<std::size_t>(std::countr_one(static_cast<std::uint64_t>(added_)))
            : 0;
    while (sums_.size() <= level)
        sums_.emplace_back(gradient.size());
    const bool first = problem_.order == Order::tree ? level == 0 : added_ == 0;
    if (first)
        std::ranges::copy(gradient, sums_[0].begin());
    else
        plus(gradient.data(), sums_[0]);
    for (std::size_t i = 1; i < level; ++i)
        plus(sums_[i - 1].data(), sums_[i]);
    if (level > 0)
        sums_[level].swap(sums_[level - 1]);
    ++added_;
}

const float* Worker::sum_of_micro_batches() {
    if (problem_.order == Order::rank)
        return sums_[0].data();
    const auto count = static_cast<std::uint64_t>(added_);
    auto at = static_cast<std::size_t>(std::countr_zero(count));
    for (std::size_t level = at + 1; level < sums_.size(); ++level)
        if ((count >> level & 1U) != 0) {
            host::add(0, static_cast<Index>(parameters_.size()), sums_[at].data(), sums_[level].data());
            at = level;
        }
    return sums_[at].data();
}

void Worker::halt_unless_finite() {
    const auto is_finite = [](const Floats& values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    if (all_of_ranks(communicator_, is_finite(state_.w) && is_finite(state_.m)))
        return;
    ended_ = "halted: after step " + std::to_string(state_.steps) + " a parameter or moment is not finite";
    throw Halted(ended_);
}

bool Worker::step(const std::vector<double>& rates) {
    must_be_able_to_go_on();
    const std::string fault = fault_of([&] {
        check_rates(problem_, rates);
        const int all = problem_.micro_batches[static_cast<std::size_t>(communicator_.rank())];
        if (added_ != all)
            throw Error("the step has " + std::to_string(added_) + " of its " + std::to_string(all) +
                        " micro-batches; add the others first");
    });
    // If anything interrupts the step from here on, no caller continues with half of it.
    ended_ = "step " + std::to_string(state_.steps + 1) + " was interrupted";
    bool goes_on = false;
    try {
        goes_on = agree_on_step(problem_, state_.steps + 1, rates, acceptable_, fault, communicator_);
    } catch (const Error&) {
        ended_.clear();
        throw;
    }
    if (goes_on) {
        make_mean();
        clip();
        ++state_.steps;
        update(rates);
        halt_unless_finite();
        gather();
    }
    added_ = 0;
    acceptable_ = true;
    ended_.clear();
    return goes_on;
}

void Worker::make_mean() {
    const float* sum = sum_of_micro_batches();
    const int own = communicator_.rank();
    const Index size = ownership_.size(own);
    const auto bytes = [](Index values) { return static_cast<std::size_t>(values) * sizeof(float); };
    parts_.resize(static_cast<std::size_t>(size * problem_.ranks));
    const std::vector<std::size_t> received(static_cast<std::size_t>(problem_.ranks), bytes(size));
    if (!ownership_.sharded()) {
        communicator_.start_all_gather(Traffic::gradient, sum, parts_.data(), received)->wait();
    } else {
        std::vector<std::size_t> sent;
        if (!ownership_.in_order())
            packed_.resize(parameters_.size());
        Index begin = 0;
        for (int rank = 0; rank < problem_.ranks; ++rank) {
            sent.push_back(bytes(ownership_.size(rank)));
            if (!ownership_.in_order())
                ownership_.pack(rank, sum, packed_.data() + begin);
            begin += ownership_.size(rank);
        }
        communicator_
            .start_all_to_all(Traffic::gradient, ownership_.in_order() ? sum : packed_.data(), sent,
                              parts_.data(), received)
            ->wait();
    }
    Scalars scalars;
    scalars.workers = static_cast<float>(static_cast<double>(divisor_of(problem_)));
    everywhere(size, [&](Index begin, Index end) {
        for (const auto& [left, right] : merges_)
            host::add(begin, end, parts_.data() + right * size, parts_.data() + left * size);
        host::fold(scalars, 1, begin, end, parts_.data(), size, mean_.data());
    });
}

void Worker::clip() {
    if (problem_.clip_norm == 0.0)
        return;
    const double norm = norm_->of(mean_.data(), communicator_);
    if (const float factor = clip_factor(problem_.clip_norm, norm); factor != 1.0F)
        for (float& value : mean_)
            value = value * factor;
}

void Worker::update(const std::vector<double>& rates) {
    Index packed = 0;
    for (const Piece& piece : ownership_.pieces(communicator_.rank())) {
        const std::size_t index = groups_[piece.tensor];
        const Group& group = problem_.groups[index];
        const auto at = [packed](Floats& of) { return of.empty() ? nullptr : of.data() + packed; };
        const Vectors vectors{mean_.data() + packed, at(state_.w), at(state_.m), at(state_.v)};
        if (group.rule == Rule::muon)
            muon_step(group, rates[index], problem_.tensors[piece.tensor].shape, vectors);
        else
            everywhere(piece.size(), [&, step = elementwise_step(group, rates[index], state_.steps)](
                                         Index begin, Index end) { step(begin, end, vectors); });
        packed += piece.size();
    }
}

void Worker::gather() {
    const bool rounds = problem_.copies == Copies::bf16;
    const auto to_copy = [](float w) { return element::to_bf16(w); };
    if (!ownership_.sharded()) {
        if (rounds)
            std::ranges::transform(state_.w, parameters_.begin(),
                                   [&](float w) { return element::from_bf16(to_copy(w)); });
        else
            std::ranges::copy(state_.w, parameters_.begin());
        return;
    }
    const auto gathered = [&]<class Value>(const std::vector<Value>& mine, Value* all) {
        std::vector<std::size_t> sizes;
        for (int rank = 0; rank < problem_.ranks; ++rank)
            sizes.push_back(static_cast<std::size_t>(ownership_.size(rank)) * sizeof(Value));
        communicator_.start_all_gather(Traffic::parameters, mine.data(), all, sizes)->wait();
    };
    const auto unpack = [&](const auto& packed) {
        Index begin = 0;
        for (int rank = 0; rank < problem_.ranks; ++rank) {
            ownership_.unpack(rank, packed.data() + begin, parameters_.data());
            begin += ownership_.size(rank);
        }
    };
    if (rounds) {
        std::vector<std::uint16_t> copies(state_.w.size());
        std::ranges::transform(state_.w, copies.begin(), to_copy);
        std::vector<std::uint16_t> all(parameters_.size());
        gathered(copies, all.data());
        Floats values(all.size());
        std::ranges::transform(all, values.begin(), element::from_bf16);
        unpack(values);
    } else if (ownership_.in_order()) {
        gathered(state_.w, parameters_.data());
    } else {
        packed_.resize(parameters_.size());
        gathered(state_.w, packed_.data());
        unpack(packed_);
    }
}

} // namespace truestep::distributed::dense
