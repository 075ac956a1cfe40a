#include <scape/gasloc/worker.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include <scape/distributed/scalars.hpp>
#include <scape/gasloc/stability.hpp>
#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/problem/tunable.hpp>

#include "agreement.hpp"

namespace scape::gasloc {

using distributed::Peers;
using distributed::Traffic;
namespace host = distributed::host;

namespace {

/// What is folded at a time while more is on its way, and what threads share out: it stays in a cache.
constexpr Index piece = problem::tunable<Index>(65'536, 8);
constexpr Index unit = problem::tunable<Index>(4096, 4);

host::InnerRule rule_of(const Settings& settings) {
    if (settings.inner == Inner::sgd)
        return host::InnerRule::sgd;
    if (settings.inner == Inner::adamw)
        return host::InnerRule::adamw;
    return settings.hyper.bias_correction == problem::BiasCorrection::momentum
               ? host::InnerRule::adams_momentum
               : host::InnerRule::adams;
}

State first_state(const Settings& settings, std::span<const float> parameters) {
    State state;
    state.theta.assign(parameters.begin(), parameters.end());
    state.before = state.theta;
    if (settings.inner != Inner::sgd)
        state.m.assign(parameters.size(), 0.0F);
    if (settings.inner == Inner::adamw)
        state.v.assign(parameters.size(), 0.0F);
    return state;
}

void check_sizes(const Settings& settings, const State& state) {
    const auto wrong = [&](const char* what, const std::vector<float>& values, bool has) {
        const std::size_t wanted = has ? state.theta.size() : 0;
        if (values.size() != wanted)
            throw Error(std::string("state: ") + what + " has " + std::to_string(values.size()) +
                        " values; inner " + std::string(name(settings.inner)) + " and " +
                        std::to_string(state.theta.size()) + " parameters make it " +
                        std::to_string(wanted));
    };
    wrong("before", state.before, true);
    wrong("m", state.m, settings.inner != Inner::sgd);
    wrong("v", state.v, settings.inner == Inner::adamw);
    for (std::size_t i = 0; i < state.theta.size(); ++i)
        if (!std::isfinite(state.theta[i]))
            throw Error("parameters: coordinate " + std::to_string(i) + " is " + shortest(state.theta[i]) +
                        "; they must be finite");
}

} // namespace

Worker::Worker(const Settings& settings, std::span<const float> parameters, Peers& peers, Options options)
    : Worker(settings, first_state(settings, parameters), peers, options) {}

Worker::Worker(Settings settings, State state, Peers& peers, Options options)
    : settings_(std::move(settings)), peers_(peers), workers_(options.threads), rounds_(state.rounds),
      s_(state.s) {
    check(settings_);
    check_law(settings_.law, peers_.size());
    for (std::size_t i = 0; i < settings_.given.size(); ++i)
        settings_.given[i] = checked(settings_.given[i], peers_.size(), "round " + std::to_string(i + 1));
    check_stable(settings_, peers_.size(), settings_.given);
    check_sizes(settings_, state);
    agree_on_settings(peers_, settings_, state);
    m_ = std::move(state.m);
    m_now_.resize(m_.size());
    v_ = std::move(state.v);
    v_now_.resize(v_.size());
    theta_ = std::move(state.theta);
    if (settings_.momentum == Momentum::gossiped) {
        before_z_ = std::move(state.before);
    } else {
        before_ = unused();
        before_->values = std::move(state.before);
    }
    x_ = unused();
}

std::span<const float> Worker::parameters() const {
    return steps_ > 0 && !skipped_ ? std::span<const float>(x_->values) : std::span<const float>(theta_);
}

/// In parts that the threads share. False if it is of one of them.
template <class Pass>
bool Worker::everywhere(Index begin, Index end, const Pass& pass) {
    if (workers_.threads() == 1)
        return pass(begin, end);
    std::atomic<bool> good{true};
    const Index units = (end - begin + unit - 1) / unit;
    workers_.run([&](int part) {
        const Index parts = workers_.threads();
        const Index first = begin + units * part / parts * unit;
        const Index last = std::min(end, begin + units * (part + 1) / parts * unit);
        if (first < last && !pass(first, last))
            good = false;
    });
    return good;
}

bool Worker::step(std::span<const float> gradient, double learning_rate) {
    must_be_able_to_go_on();
    if (gradient.size() != size())
        throw Error("the gradient has " + std::to_string(gradient.size()) + " values; the model has " +
                    std::to_string(size()) + " parameters");
    if (!std::isfinite(learning_rate))
        throw Error("the learning rate is " + shortest(learning_rate) + "; it must be finite");
    if (skipped_)
        return false;
    problem::HyperParameters hyper = settings_.hyper;
    if (settings_.inner == Inner::adamw)
        hyper.bias_correction = problem::BiasCorrection::adam;
    const auto scalars = distributed::scalars_of(hyper, 1, s_ + steps_ + 1, learning_rate);
    // The first step reads what is kept for a skipped round, and leaves it alone.
    const bool first = steps_ == 0;
    const host::InnerStep vectors{gradient.data(),
                                  first ? theta_.data() : x_->values.data(),
                                  first ? m_.data() : m_now_.data(),
                                  first ? v_.data() : v_now_.data(),
                                  x_->values.data(),
                                  m_now_.data(),
                                  v_now_.data()};
    skipped_ = !everywhere(0, static_cast<Index>(size()), [&](Index begin, Index end) {
        return host::inner(rule_of(settings_), scalars, begin, end, vectors);
    });
    ++steps_;
    return !skipped_;
}

Index Worker::kept_steps() const {
    return skipped_ ? 0 : steps_;
}

Round Worker::round() {
    must_be_able_to_go_on();
    Round round{rounds_ + 1, kept_steps(), skipped_};
    round.met = neighbours(graph_of(settings_, round.number, peers_.size()), peers_.rank());
    // Whatever interrupts the round from here on, nobody goes on with half of it.
    ended_ = "round " + std::to_string(round.number) + " was interrupted";
    make_y();
    gossip(round);
    if (kept_steps() > 0) {
        std::swap(m_, m_now_);
        std::swap(v_, v_now_);
        s_ += steps_;
    }
    rounds_ = round.number;
    steps_ = 0;
    skipped_ = false;
    if (settings_.momentum == Momentum::local)
        before_ = x_;
    x_ = nullptr;
    x_ = unused();
    if (ended_.empty())
        return round;
    peers_.leave("rank " + std::to_string(peers_.rank()) + " has halted: " + ended_);
    throw Halted("halted: " + ended_ + "; start again from a finite state");
}

void Worker::make_y() {
    if (kept_steps() == 0) {
        std::copy(theta_.begin(), theta_.end(), x_->values.begin());
        return;
    }
    const auto eta = static_cast<float>(settings_.eta);
    everywhere(0, static_cast<Index>(size()), [&](Index begin, Index end) {
        host::drift(eta, begin, end, theta_.data(), x_->values.data());
        return true;
    });
}

void Worker::gossip(Round& round) {
    const std::size_t bytes = size() * sizeof(float);
    const auto number = static_cast<std::uint64_t>(round.number);
    std::vector<std::unique_ptr<distributed::Incoming>> incoming;
    for (const Neighbour& neighbour : round.met)
        incoming.push_back(peers_.receive(Traffic::parameters, neighbour.worker, number, bytes));
    for (const Neighbour& neighbour : round.met) {
        peers_.send(Traffic::parameters, neighbour.worker, number, lent(x_), bytes);
        round.sent += bytes;
    }
    const auto d = static_cast<Index>(size());
    float* const before =
        settings_.momentum == Momentum::gossiped ? before_z_.data() : before_->values.data();
    std::vector<host::Met> met(round.met.size());
    bool finite = true;
    Index begin = 0;
    do { // once where there are no parameters: a neighbour that has failed is noticed all the same
        const Index end = std::min(d, begin + piece);
        for (std::size_t i = 0; i < met.size(); ++i)
            met[i] = {reinterpret_cast<const float*>(
                          incoming[i]->wait(static_cast<std::size_t>(end) * sizeof(float))),
                      static_cast<float>(round.met[i].weight)};
        const host::Gossip with{met, static_cast<float>(settings_.alpha / 2),
                                static_cast<float>(settings_.gamma), settings_.gamma != 0.0,
                                settings_.momentum == Momentum::gossiped};
        finite =
            everywhere(begin, end,
                       [&](Index first, Index last) {
                           return host::gossip(with, first, last, x_->values.data(), before, theta_.data());
                       }) &&
            finite;
        begin = end;
    } while (begin < d);
    ended_ = finite ? "" : "after round " + std::to_string(round.number) + " a parameter is not finite";
}

void Worker::must_be_able_to_go_on() const {
    if (!ended_.empty())
        throw Halted("halted: " + ended_ + "; start again from a finite state");
}

Worker::SharedVector Worker::unused() {
    for (const SharedVector& vector : pool_)
        if (vector != before_ && vector != x_ && vector->readers.load(std::memory_order_acquire) == 0)
            return vector;
    pool_.push_back(std::make_shared<Shared>(size()));
    return pool_.back();
}

/// The last reader's release comes before whatever is written here next: not so with use_count().
std::shared_ptr<const void> Worker::lent(const SharedVector& vector) {
    vector->readers.fetch_add(1, std::memory_order_relaxed);
    return {vector->values.data(),
            [vector](const void*) { vector->readers.fetch_sub(1, std::memory_order_release); }};
}

State Worker::state() const {
    if (steps_ > 0)
        throw Error("a state can be had between two rounds only; end this one first");
    return {rounds_, s_, theta_, settings_.momentum == Momentum::gossiped ? before_z_ : before_->values,
            m_,      v_};
}

} // namespace scape::gasloc
