// Takes one rank's step of dense training: sums, mean, clip, update, all-gather.
#include <truestep/distributed/dense/worker.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/distributed/workers.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>
#include <truestep/problem/value_digest.hpp>

#include <truestep/distributed/dense/agreement.hpp>
#include <truestep/distributed/dense/rules.hpp>

namespace truestep::distributed::dense {

namespace {

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

/// What `act` throws, such as bad input or a lack of memory, or "".
std::string fault_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const std::exception& error) {
        return error.what();
    }
    return {};
}

std::pair<std::string, std::string> digest_of(const std::string& what, std::span<const float> values) {
    return {what + " with digest", std::to_string(problem::digest_of(values))};
}

/// Ranks that each have all of the state agree on these.
Words digests_of(const State& state, const Options& options) {
    if (options.sharded)
        return {};
    return {digest_of("parameters", state.w), digest_of("first moments", state.m),
            digest_of("second moments", state.v)};
}

/// The state that this rank makes, once all ranks agree. A rank that cannot make one tells the others
/// why.
State agreed(const Problem& problem, const Options& options, Communicator& ranks, const char* from,
             Words more, const std::function<State()>& make) {
    State state;
    const std::string fault = fault_of([&] {
        check(problem);
        check_threads(options.threads); // the backend would do so after the others have gone on
        if (problem.ranks != ranks.size())
            throw Error("the problem has " + std::to_string(problem.ranks) + " ranks, and " +
                        std::to_string(ranks.size()) + " were started; start as many");
        state = make();
    });
    // First: at another step all else differs, too.
    more.insert(more.begin(), {{"sharded", options.sharded ? "true" : "false"},
                               {"the step", std::to_string(state.steps)},
                               {"the beginning", from}});
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
               Options options, std::unique_ptr<Backend> backend)
    : Worker(
          Agreed{agreed(problem, options, communicator, "parameters", {digest_of("parameters", parameters)},
                        [&] {
                            return first_state(problem, Ownership(problem, options.sharded),
                                               communicator.rank(), parameters);
                        })},
          problem, communicator, options, std::move(backend)) {}

Worker::Worker(Problem problem, State state, Communicator& communicator, Options options,
               std::unique_ptr<Backend> backend)
    : Worker(
          Agreed{agreed(problem, options, communicator, "a state", digests_of(state, options),
                        [&] { return checked(problem, options, communicator.rank(), std::move(state)); })},
          problem, communicator, options, std::move(backend)) {}

Worker::Worker(Agreed agreed, Problem problem, Communicator& communicator, Options options,
               std::unique_ptr<Backend> backend)
    : problem_(std::move(problem)), options_(options), communicator_(communicator),
      ownership_(problem_, options.sharded), norm_(problem_, ownership_),
      backend_(backend ? std::move(backend) : make_host_backend(options.threads)),
      state_(std::move(agreed.state)), merges_(merges_of(problem_)) {
    mapl::one_thread_unless_asked();
    backend_->begin(problem_, ownership_, communicator_.rank(), state_);
    halt_unless_finite();
    gather();
}

void Worker::must_be_able_to_go_on() const {
    if (!ended_.empty())
        throw Error(ended_ + "; start again from a checkpoint");
}

void Worker::add(std::span<const float> gradient) {
    must_be_able_to_go_on();
    add(gradient, false);
}

void Worker::add(std::span<const float> gradient, bool lent) {
    const int all = problem_.micro_batches[static_cast<std::size_t>(communicator_.rank())];
    if (added_ == all)
        throw Error("the step has its " + std::to_string(all) +
                    " micro-batches; end it before another one");
    const Index size = layout_of(problem_).size();
    if (static_cast<Index>(gradient.size()) != size)
        throw Error("the gradient has " + std::to_string(gradient.size()) + " values; the model has " +
                    std::to_string(size) + " parameters");
    acceptable_ = backend_->add(gradient, added_, lent && all == 1) && acceptable_;
    ++added_;
}

void Worker::halt_unless_finite() {
    if (all_of_ranks(communicator_, backend_->is_finite()))
        return;
    ended_ = "halted: after step " + std::to_string(state_.steps) + " a parameter or moment is not finite";
    throw Halted(ended_);
}

bool Worker::step(const std::vector<double>& rates) {
    return step({}, rates);
}

bool Worker::step(std::span<const float> last, const std::vector<double>& rates) {
    must_be_able_to_go_on();
    const problem::Span span("step", communicator_.rank());
    const int all = problem_.micro_batches[static_cast<std::size_t>(communicator_.rank())];
    bool lent = false;
    const std::string fault = fault_of([&] {
        if (!last.empty()) {
            add(last, true);
            lent = all == 1;
        }
        check_rates(problem_, rates);
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
        // Whoever tries again may have overwritten what was lent.
        if (lent)
            backend_->add(last, 0, false);
        throw;
    }
    if (goes_on) {
        make_mean();
        clip();
        ++state_.steps;
        {
            const problem::Span update("update", communicator_.rank());
            backend_->update(rates, state_.steps);
        }
        halt_unless_finite();
        gather();
    }
    added_ = 0;
    acceptable_ = true;
    ended_.clear();
    return goes_on;
}

void Worker::make_mean() {
    const problem::Span span("mean", communicator_.rank());
    const void* const sum = backend_->sum(added_);
    const auto bytes = [this](int rank) {
        return static_cast<std::size_t>(ownership_.size(rank)) * sizeof(float);
    };
    const std::vector<std::size_t> received(static_cast<std::size_t>(problem_.ranks),
                                            bytes(communicator_.rank()));
    void* const parts = backend_->parts();
    if (parts == sum) {
        // Nothing travels.
    } else if (!ownership_.sharded()) {
        communicator_.start_all_gather(Traffic::gradient, sum, parts, received)->wait();
    } else {
        std::vector<std::size_t> sent;
        for (int rank = 0; rank < problem_.ranks; ++rank)
            sent.push_back(bytes(rank));
        communicator_.start_all_to_all(Traffic::gradient, sum, sent, parts, received)->wait();
    }
    backend_->make_mean(merges_, static_cast<float>(static_cast<double>(divisor_of(problem_))));
}

void Worker::clip() {
    if (problem_.clip_norm == 0.0)
        return;
    const problem::Span span("clip", communicator_.rank());
    const int own = communicator_.rank();
    std::vector<double> sums = backend_->square_sums(norm_.whole(own));
    const double norm = norm_.of(std::move(sums), backend_->values(norm_.cut(own)), communicator_);
    if (const float factor = clip_factor(problem_.clip_norm, norm); factor != 1.0F)
        backend_->scale(factor);
}

void Worker::gather() {
    const problem::Span span("gather", communicator_.rank());
    const void* const own = backend_->own();
    void* const all = backend_->all();
    if (ownership_.sharded() && all != own) {
        const std::size_t width = problem_.copies == Copies::bf16 ? sizeof(std::uint16_t) : sizeof(float);
        std::vector<std::size_t> sizes;
        for (int rank = 0; rank < problem_.ranks; ++rank)
            sizes.push_back(static_cast<std::size_t>(ownership_.size(rank)) * width);
        communicator_.start_all_gather(Traffic::parameters, own, all, sizes)->wait();
    }
    backend_->show();
}

} // namespace truestep::distributed::dense
