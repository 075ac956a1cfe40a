// Computes GASLoC's steps and rounds in plain loops, each of which may have a known bug.
#include "plain_worker.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include <truestep/gate/record.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>

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

/// A setting with a sum of its bits, so that the first that differs can be named.
using Sums = std::vector<std::pair<std::string, std::uint64_t>>;

Sums sums_of(const Settings& settings, const Floats& start) {
    Sums all;
    const auto add = [&all](const std::string& key, const auto& value, auto...) {
        all.emplace_back(key, 0);
        for (const std::uint8_t byte : gate::packed(value))
            all.back().second = all.back().second * 31 + byte;
    };
    visit_settings(settings, add);
    add("edges", settings.given);
    add("parameters", start);
    return all;
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

std::vector<PlainWorker::Numbers> PlainWorker::numbers_of_all(const Numbers& mine, std::uint64_t number) {
    const auto message = std::make_shared<Numbers>(mine);
    const std::size_t bytes = mine.size() * sizeof(mine[0]);
    for (int peer = 0; peer < peers_.size(); ++peer)
        if (peer != peers_.rank())
            peers_.send(Traffic::agreement, peer, number,
                        std::shared_ptr<const void>(message, message->data()), bytes);
    std::vector<Numbers> all(static_cast<std::size_t>(peers_.size()), mine);
    for (int peer = 0; peer < peers_.size(); ++peer)
        if (peer != peers_.rank())
            std::memcpy(all[static_cast<std::size_t>(peer)].data(),
                        peers_.receive(Traffic::agreement, peer, number, bytes)->wait(bytes), bytes);
    return all;
}

void PlainWorker::agree() {
    const Sums sums = sums_of(settings_, known_bug_ == other_starts ? Floats() : state_.theta);
    Numbers mine;
    for (const auto& [key, sum] : sums)
        mine.push_back(sum);
    const std::vector<Numbers> all = numbers_of_all(mine, 0);
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        for (std::size_t i = 0; i < mine.size(); ++i)
            if (all[rank][i] != all[0][i])
                throw Error("rank " + std::to_string(rank) + " has another " + sums[i].first +
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
    by_hand::take_inner_step(now_, settings_, gradient,
                             known_bug_ == first_rate ? first_rate_ : learning_rate,
                             known_bug_ == decay_forgotten ? 0.0 : settings_.hyper.weight_decay,
                             known_bug_ == bias_by_round ? state_.rounds + 1 : now_.s);
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
    std::vector<int> strangers; // that a known bug meets, too
    for (int peer = 0; known_bug_ == to_everybody && peer < peers_.size(); ++peer)
        if (peer != peers_.rank() && std::ranges::find(met, peer, &Neighbour::worker) == met.end())
            strangers.push_back(peer);
    for (const int peer : strangers)
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
    for (const int peer : strangers)
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

bool PlainWorker::round() {
    const bool was_skipped = skipped_;
    if (known_bug_ == barrier)
        static_cast<void>(numbers_of_all({0}, 1));
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

} // namespace truestep::properties::gasloc
