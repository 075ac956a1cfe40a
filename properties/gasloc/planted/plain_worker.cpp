// Computes GASLoC's steps and rounds in plain loops, each of which may have a known bug.
#include "plain_worker.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/problem/text.hpp>

#include "by_hand.hpp"

namespace truestep::properties::gasloc {

namespace {

using distributed::Peers;
using distributed::Traffic;
using Floats = std::vector<float>;

constexpr std::size_t bucket = 4; ///< values in a message of a known bug that sends pieces

float once(double value) {
    return static_cast<float>(value);
}

bool finite(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

double power(double base, Index times) {
    double result = 1.0;
    for (; times > 0; times /= 2, base *= base)
        if (times % 2 == 1)
            result *= base;
    return result;
}

/// A checksum as text, since the settings are compared as words.
std::string text_of(const std::vector<Graph>& graphs) {
    std::uint64_t sum = 0;
    for (const Graph& graph : graphs) {
        sum = sum * 31 + 1;
        for (const Edge& edge : graph)
            for (const double value : {edge.a + 0.0, edge.b + 0.0, edge.weight})
                sum = sum * 31 + std::bit_cast<std::uint64_t>(value) % 0xffff'fffbU;
    }
    return std::to_string(sum);
}

/// Settings as words, one each, so that the first that differs can be named.
std::vector<std::pair<std::string, std::string>> words_of(const Settings& s, const Floats& start) {
    std::uint64_t sum = 0;
    for (const float value : start)
        sum = sum * 31 + std::bit_cast<std::uint32_t>(value);
    return {{"inner", std::string(name(s.inner))},
            {"weight_decay", shortest(s.hyper.weight_decay)},
            {"beta1", shortest(s.hyper.beta1)},
            {"beta2", shortest(s.hyper.beta2)},
            {"epsilon", shortest(s.hyper.epsilon)},
            {"bias_correction", std::string(name(s.hyper.bias_correction))},
            {"momentum", std::string(name(s.momentum))},
            {"edges", text_of(s.given)},
            {"alpha", shortest(s.alpha)},
            {"gamma", shortest(s.gamma)},
            {"eta", shortest(s.eta)},
            {"law", std::string(name(s.law))},
            {"seed", std::to_string(s.seed)},
            {"parameters", std::to_string(sum)}};
}

} // namespace

PlainWorker::PlainWorker(Number known_bug, Settings settings, State state, Peers& peers)
    : known_bug_(known_bug), settings_(std::move(settings)), state_(std::move(state)), peers_(peers) {
    check(settings_);
    check_law(settings_.law, peers_.size());
    for (Graph& graph : settings_.given)
        graph = checked(graph, peers_.size(), "edges");
    if (known_bug_ != unstable_accepted)
        check_stable(settings_, peers_.size(), settings_.given);
    if (!finite(state_.theta))
        throw Error("the parameters must be finite");
    if (known_bug_ == other_starts && state_.rounds == 0)
        for (float& value : state_.theta)
            value += 0.25F * static_cast<float>(peers_.rank());
    if (known_bug_ == before_zero && state_.rounds == 0)
        state_.before.assign(state_.before.size(), 0.0F);
    if (state_.rounds == 0 && known_bug_ != settings_not_compared)
        agree();
    now_ = state_;
}

/// Sends the settings to all others as words of one length, and compares.
void PlainWorker::agree() {
    constexpr std::size_t length = 48;
    Floats start = state_.theta;
    if (known_bug_ == other_starts)
        start.clear();
    const auto mine = words_of(settings_, start);
    const auto text = std::make_shared<std::string>();
    for (const auto& [what, value] : mine) {
        std::string field = value.substr(0, length);
        field.resize(length, ' ');
        *text += field;
    }
    const auto bytes = text->size();
    std::vector<std::string> all(static_cast<std::size_t>(peers_.size()), *text);
    std::vector<std::unique_ptr<distributed::IncomingMessage>> incoming(all.size());
    for (int peer = 0; peer < peers_.size(); ++peer)
        if (peer != peers_.rank()) {
            incoming[static_cast<std::size_t>(peer)] = peers_.receive(Traffic::agreement, peer, 0, bytes);
            peers_.send(Traffic::agreement, peer, 0, std::shared_ptr<const void>(text, text->data()),
                        bytes);
        }
    for (std::size_t peer = 0; peer < all.size(); ++peer)
        if (incoming[peer])
            std::memcpy(all[peer].data(), incoming[peer]->wait(bytes), bytes);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        for (std::size_t i = 0; i < mine.size(); ++i)
            if (all[rank].compare(i * length, length, all[0], i * length, length) != 0)
                throw Error("rank " + std::to_string(rank) + " has another " + mine[i].first +
                            " than rank 0");
}

void PlainWorker::restore(State state) {
    state_ = std::move(state);
    now_ = state_;
    steps_ = 0;
    skipped_ = skipped_ && known_bug_ == restored_steps_kept;
}

bool PlainWorker::step(std::span<const float> gradient, double learning_rate) {
    if (skipped_)
        return false;
    if (steps_ == 0)
        first_rate_ = learning_rate;
    ++steps_;
    if (!finite(gradient) && known_bug_ != bad_gradient_taken) {
        skipped_ = true;
        const Index counted = now_.s;
        now_ = state_;
        if (known_bug_ == skipped_counts)
            now_.s = counted + 1;
        return false;
    }
    ++now_.s;
    const auto& hyper = settings_.hyper;
    const bool adamw = settings_.inner == Inner::adamw;
    const bool none_at_all = !adamw && hyper.bias_correction == problem::BiasCorrection::none;
    const bool momentum = !adamw && hyper.bias_correction == problem::BiasCorrection::momentum;
    const double rate = known_bug_ == first_rate ? first_rate_ : learning_rate;
    const float lr = once(rate);
    const float keep = known_bug_ == decay_forgotten ? 1.0F : once(1.0 - rate * hyper.weight_decay);
    const Index t = known_bug_ == bias_by_round ? state_.rounds + 1 : now_.s;
    const float inv1 = none_at_all ? 1.0F : once(1.0 / (1.0 - power(hyper.beta1, t)));
    const float invs2 = none_at_all || momentum ? 1.0F : once(1.0 / std::sqrt(1.0 - power(hyper.beta2, t)));
    const float b1 = once(hyper.beta1);
    const float a1 = once(1.0 - hyper.beta1);
    const float b2 = once(hyper.beta2);
    const float a2 = once(1.0 - hyper.beta2);
    const float epsilon = once(hyper.epsilon);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
        const float g = gradient[i];
        float u = g;
        if (settings_.inner == Inner::adams) {
            const float m = now_.m[i];
            now_.m[i] = (b1 * m) + (a1 * g);
            const float q = momentum ? m * inv1 : m;
            const float v = (b2 * (q * q)) + (a2 * (g * g));
            const float below = momentum ? std::sqrt(v) + epsilon : (std::sqrt(v) * invs2) + epsilon;
            u = (now_.m[i] * inv1) / below;
        } else if (adamw) {
            now_.m[i] = (b1 * now_.m[i]) + (a1 * g);
            now_.v[i] = (b2 * now_.v[i]) + (a2 * (g * g));
            u = (now_.m[i] * inv1) / ((std::sqrt(now_.v[i]) * invs2) + epsilon);
        }
        now_.theta[i] = (now_.theta[i] * keep) - (lr * u);
    }
    return true;
}

Floats PlainWorker::drifted() const {
    Floats y = state_.theta;
    if (steps_ == 0 || skipped_)
        return y;
    const float eta = once(known_bug_ == eta_twice ? settings_.eta * settings_.eta : settings_.eta);
    for (std::size_t i = 0; i < y.size(); ++i) {
        const float x = now_.theta[i];
        const float theta = state_.theta[i];
        if (known_bug_ == eta_on_x)
            y[i] = theta + ((eta * x) - theta);
        else if (known_bug_ == drift_sign)
            y[i] = theta - (eta * (x - theta));
        else
            y[i] = theta + (eta * (x - theta));
    }
    return y;
}

void PlainWorker::send(int peer, const Floats& values, Index number) {
    const auto message = std::make_shared<Floats>(values);
    peers_.send(Traffic::parameters, peer, static_cast<std::uint64_t>(number),
                std::shared_ptr<const void>(message, message->data()), message->size() * sizeof(float));
}

Floats PlainWorker::received(int peer, std::size_t size, Index number) {
    const auto incoming =
        peers_.receive(Traffic::parameters, peer, static_cast<std::uint64_t>(number), size * sizeof(float));
    Floats values(size);
    const std::byte* const bytes = incoming->wait(size * sizeof(float));
    if (size > 0)
        std::memcpy(values.data(), bytes, size * sizeof(float));
    return values;
}

Floats PlainWorker::in_place_gossiped(Floats y, const std::vector<Neighbour>& met) {
    const float a = once(settings_.alpha / 2);
    for (const Neighbour& j : met) {
        send(j.worker, y, state_.rounds + 1);
        const Floats of_j = received(j.worker, y.size(), state_.rounds + 1);
        for (std::size_t i = 0; i < y.size(); ++i)
            y[i] = y[i] - (a * (0.0F + (once(j.weight) * (y[i] - of_j[i]))));
    }
    return y;
}

Floats PlainWorker::gossiped(const Floats& y, const std::vector<Neighbour>& met) {
    if (known_bug_ == in_place)
        return in_place_gossiped(y, met);
    const Index number = state_.rounds + 1;
    const bool silent = known_bug_ == skipped_not_gossiped && skipped_;
    Floats told = silent ? Floats(y.size(), 0.0F) : y;
    const std::size_t whole = y.size() / bucket * bucket;
    if (known_bug_ == bucket_lost)
        told.resize(whole);
    for (const Neighbour& j : met)
        send(j.worker, told, number);
    if (known_bug_ == to_everybody)
        for (int peer = 0; peer < peers_.size(); ++peer)
            if (peer != peers_.rank() && std::none_of(met.begin(), met.end(), [peer](const Neighbour& j) {
                    return j.worker == peer;
                }))
                send(peer, told, number);
    std::vector<Floats> of(met.size());
    for (std::size_t k = 0; k < met.size(); ++k) {
        of[k] = received(met[k].worker, told.size(), number);
        for (std::size_t i = of[k].size(); i < y.size(); ++i) // lost values are replaced by own ones
            of[k].push_back(y[i]);
        if (known_bug_ == last_bucket_everywhere && whole > bucket)
            for (std::size_t i = 0; i < whole; ++i)
                of[k][i] = of[k][whole - bucket + i % bucket];
        if (known_bug_ == stale_peer) {
            Floats& last = last_of_[met[k].worker];
            std::swap(last, of[k]);
            if (of[k].empty())
                of[k] = y;
        }
    }
    if (known_bug_ == to_everybody)
        for (int peer = 0; peer < peers_.size(); ++peer)
            if (peer != peers_.rank() && std::none_of(met.begin(), met.end(), [peer](const Neighbour& j) {
                    return j.worker == peer;
                }))
                static_cast<void>(received(peer, told.size(), number));
    if (known_bug_ == odd_with_itself && met.empty() && peers_.size() > 1 && settings_.law == Law::pairs) {
        Floats z = y;
        for (std::size_t i = 0; i < z.size(); ++i)
            z[i] = z[i] - (once(settings_.alpha / 2) * (y[i] - state_.before[i]));
        return z;
    }
    if (met.empty() || known_bug_ == mix_dropped)
        return y;
    std::vector<std::size_t> order(met.size());
    for (std::size_t k = 0; k < order.size(); ++k)
        order[k] = known_bug_ == as_they_come ? order.size() - 1 - k : k;
    const double alpha = known_bug_ == alpha_swapped ? 1.0 - settings_.alpha : settings_.alpha;
    const float a = once(alpha / 2);
    Floats z = y;
    for (std::size_t i = 0; i < y.size(); ++i) {
        float acc = 0.0F;
        for (const std::size_t k : order) {
            if (known_bug_ == edges_one_way && met[k].worker < peers_.rank())
                continue;
            const float lambda = known_bug_ == weights_ignored ? 1.0F : once(met[k].weight);
            acc = acc + (lambda * (y[i] - of[k][i]));
            if (known_bug_ == pairs_twice)
                acc = acc + (lambda * (y[i] - of[k][i]));
        }
        if (known_bug_ == mean_of_neighbours)
            acc = acc / static_cast<float>(met.size());
        z[i] = y[i] - (a * acc);
    }
    return z;
}

/// The round whose graph it uses.
Index PlainWorker::graphs_round() const {
    if (known_bug_ == local_round)
        return rounds_with_steps_ + 1;
    if (known_bug_ == round_not_restored)
        return of_this_life_ + 1;
    return state_.rounds + 1;
}

/// A barrier: waits for all others.
void PlainWorker::all_meet() {
    const auto nothing = std::make_shared<int>(0);
    for (int peer = 0; peer < peers_.size(); ++peer)
        if (peer != peers_.rank())
            peers_.send(Traffic::agreement, peer, 1, nothing, sizeof(int));
    for (int peer = 0; peer < peers_.size(); ++peer)
        if (peer != peers_.rank())
            static_cast<void>(peers_.receive(Traffic::agreement, peer, 1, sizeof(int))->wait(sizeof(int)));
}

bool PlainWorker::round() {
    const bool was_skipped = skipped_;
    if (known_bug_ == barrier)
        all_meet();
    if (known_bug_ == seed_not_restored && of_this_life_ < state_.rounds)
        settings_.seed += 1;
    const std::vector<Neighbour> met =
        neighbours(by_hand::graph_of(settings_, graphs_round(), peers_.size()), peers_.rank());
    if (known_bug_ == seed_not_restored && of_this_life_ < state_.rounds)
        settings_.seed -= 1;
    const Floats y = drifted();
    const Floats z = gossiped(y, met);
    const bool local = settings_.momentum == Momentum::local;
    const Floats& moves = known_bug_ == momentum_on_theta ? z : (local ? y : z);
    const Floats before = known_bug_ == momentum_on_theta ? state_.theta : state_.before;
    const float gamma = once(settings_.gamma);
    Floats theta = z;
    const bool carried = settings_.gamma != 0.0;
    for (std::size_t i = 0; carried && i < theta.size(); ++i) {
        theta[i] = z[i] + (gamma * (moves[i] - before[i]));
        if (known_bug_ == gamma_twice)
            theta[i] = theta[i] + (gamma * (moves[i] - before[i]));
    }
    if (known_bug_ == odd_not_updated && met.empty() && peers_.size() > 1)
        theta = state_.theta;
    if (known_bug_ == alone_adds_zeros && peers_.size() == 1)
        theta = state_.theta;
    if (known_bug_ == outer_over_nothing)
        theta = now_.theta;
    State next = now_;
    next.theta = std::move(theta);
    next.before = local ? y : z;
    if (known_bug_ == before_gossiped)
        next.before = z;
    if (known_bug_ == before_never_saved || (known_bug_ == before_zero && state_.rounds == 0))
        next.before = state_.before;
    if (known_bug_ == moments_reset) {
        next.m.assign(next.m.size(), 0.0F);
        next.v.assign(next.v.size(), 0.0F);
    }
    if (known_bug_ == counters_of_rank && peers_.rank() > 0)
        next.s = std::max(next.s, state_.s + 1);
    ++next.rounds;
    if (steps_ > 0)
        ++rounds_with_steps_;
    ++of_this_life_;
    state_ = std::move(next);
    now_ = state_;
    steps_ = 0;
    skipped_ = false;
    if (!finite(state_.theta) && known_bug_ != not_finite_goes_on) {
        peers_.leave("rank " + std::to_string(peers_.rank()) + " has halted");
        throw Halted("halted after round " + std::to_string(state_.rounds));
    }
    return was_skipped && known_bug_ != skipped_silently;
}

State PlainWorker::state() const {
    return state_;
}

} // namespace truestep::properties::gasloc
