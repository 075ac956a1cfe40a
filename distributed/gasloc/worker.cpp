// Takes one GASLoC worker through its steps and rounds, with messages to the neighbours.
#include <truestep/distributed/gasloc/worker.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <truestep/distributed/gasloc/host_backend.hpp>
#include <truestep/distributed/scalars.hpp>
#include <truestep/distributed/throws_on_all.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/text.hpp>

#include "agreement.hpp"
#include <truestep/problem/timeline.hpp>

namespace truestep::distributed::gasloc {

using distributed::Peers;
using distributed::Traffic;

namespace {

using distributed::InnerRule;

InnerRule rule_of(const Settings& settings) {
    if (settings.inner == Inner::sgd)
        return InnerRule::sgd;
    if (settings.inner == Inner::adamw)
        return InnerRule::adamw;
    return settings.hyper.bias_correction == problem::BiasCorrection::momentum ? InnerRule::adams_momentum
                                                                               : InnerRule::adams;
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

Worker::Worker(const Settings& settings, std::span<const float> parameters, Peers& peers, Options options)
    : Worker(settings, first_state(settings, parameters), peers, options) {}

Worker::Worker(Settings settings, State state, Peers& peers, Options options)
    : Worker(std::move(settings), std::move(state), peers, make_host_backend(options.threads)) {}

Worker::Worker(Settings settings, State state, Peers& peers, std::unique_ptr<Backend> backend)
    : settings_(std::move(settings)), peers_(peers), backend_(std::move(backend)),
      size_(state.theta.size()), rounds_(state.rounds), s_(state.s) {
    distributed::throws_on_all(peers_, [&] {
        check(settings_);
        check_law(settings_.law, peers_.size());
        for (std::size_t i = 0; i < settings_.given.size(); ++i)
            settings_.given[i] =
                checked(settings_.given[i], peers_.size(), "round " + std::to_string(i + 1));
        check_stable(settings_, peers_.size(), settings_.given);
        check_sizes(settings_, state);
    });
    agree_on_settings(peers_, settings_, state);
    backend_->begin(std::move(state), settings_.momentum);
}

void Worker::restore(State state) {
    distributed::throws_on_all(peers_, [&] {
        if (state.theta.size() != size_)
            throw Error("state: it has " + std::to_string(state.theta.size()) +
                        " parameters, and the worker " + std::to_string(size_) +
                        "; make another worker for another model");
        check_sizes(settings_, state);
    });
    agree_on_settings(peers_, settings_, state);
    rounds_ = state.rounds;
    s_ = state.s;
    steps_ = 0;
    skipped_ = false;
    ended_.clear();
    in_a_round_ = false;
    backend_->begin(std::move(state), settings_.momentum);
}

std::span<const float> Worker::parameters() const {
    return backend_->parameters(kept_steps() > 0);
}

const float* Worker::parameters_in_place() const {
    return backend_->in_place(kept_steps() > 0);
}

bool Worker::step(std::span<const float> gradient, double learning_rate) {
    must_be_able_to_go_on();
    if (gradient.size() != size_)
        throw Error("the gradient has " + std::to_string(gradient.size()) + " values; the model has " +
                    std::to_string(size_) + " parameters");
    if (!std::isfinite(learning_rate))
        throw Error("the learning rate is " + shortest(learning_rate) + "; it must be finite");
    if (skipped_)
        return false;
    problem::HyperParameters hyper = settings_.hyper;
    if (settings_.inner == Inner::adamw)
        hyper.bias_correction = problem::BiasCorrection::adam;
    const auto scalars = distributed::scalars_of(hyper, 1, s_ + steps_ + 1, learning_rate);
    const problem::Span span("inner step", peers_.rank());
    skipped_ = !backend_->inner(rule_of(settings_), scalars, steps_ == 0, gradient.data());
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
    // If anything interrupts the round from here on, no caller continues with half of it.
    ended_ = "round " + std::to_string(round.number) + " was interrupted";
    in_a_round_ = true;
    backend_->make_y(round.inner_steps > 0, static_cast<float>(settings_.eta));
    const bool finite = gossip(round);
    backend_->end_round(round.inner_steps > 0);
    s_ += round.inner_steps;
    rounds_ = round.number;
    steps_ = 0;
    skipped_ = false;
    in_a_round_ = false;
    ended_ = finite ? "" : "after round " + std::to_string(round.number) + " a parameter is not finite";
    if (finite)
        return round;
    peers_.leave("rank " + std::to_string(peers_.rank()) + " has halted: " + ended_);
    throw Halted("halted: " + ended_ + "; start again from a finite state");
}

/// Whether all parameters are finite after it.
bool Worker::gossip(Round& round) {
    const problem::Span span("gossip", peers_.rank());
    const std::size_t bytes = size_ * sizeof(float);
    const auto number = static_cast<std::uint64_t>(round.number);
    std::vector<std::unique_ptr<distributed::IncomingMessage>> incoming;
    for (const Neighbour& neighbour : round.met)
        incoming.push_back(peers_.receive(Traffic::parameters, neighbour.worker, number, bytes));
    for (const Neighbour& neighbour : round.met) {
        peers_.send(Traffic::parameters, neighbour.worker, number, backend_->lend_y(), bytes);
        round.sent += bytes;
    }
    const auto d = static_cast<Index>(size_);
    const Index piece = backend_->piece();
    std::vector<distributed::NeighbourVector> met(round.met.size());
    bool finite = true;
    Index begin = 0;
    do { // once where there are no parameters: a neighbour that has failed is noticed all the same
        const Index end = d - begin > piece ? begin + piece : d;
        for (std::size_t i = 0; i < met.size(); ++i)
            met[i] = {reinterpret_cast<const float*>(
                          incoming[i]->wait(static_cast<std::size_t>(end) * sizeof(float))),
                      static_cast<float>(round.met[i].weight)};
        const distributed::Gossip with{met, static_cast<float>(settings_.alpha / 2),
                                       static_cast<float>(settings_.gamma), settings_.gamma != 0.0,
                                       settings_.momentum == Momentum::gossiped};
        finite = backend_->gossip(with, begin, end) && finite;
        begin = end;
    } while (begin < d);
    return finite;
}

void Worker::must_be_able_to_go_on() const {
    if (!ended_.empty())
        throw Halted("halted: " + ended_ + "; start again from a finite state");
}

State Worker::state() const {
    if (in_a_round_)
        must_be_able_to_go_on();
    if (steps_ > 0)
        throw Error("state() is available only between two rounds; end this round first");
    State state = backend_->state();
    state.rounds = rounds_;
    state.s = s_;
    return state;
}

} // namespace truestep::distributed::gasloc
