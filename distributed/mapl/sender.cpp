#include <scape/mapl/ends.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <scape/mapl/spel_step.hpp>
#include <scape/problem/error.hpp>

#include "payload.hpp"

namespace scape::mapl {

using distributed::Traffic;

Sender::Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer)
    : End(settings, std::move(state), Side::sender, peers, peer) {}

namespace {

std::string named(Index micro) {
    return "micro-batch " + std::to_string(micro);
}

} // namespace

Floats Sender::room(std::size_t size) {
    if (spare_.empty())
        return Floats(size);
    Floats taken = std::move(spare_.back());
    spare_.pop_back();
    taken.resize(size);
    return taken;
}

void Sender::forward(Index micro, std::span<const float> activations, std::span<const Id> ids) {
    check_forward(micro, activations.size(), ids);
    send(micro, activations, {room(activations.size()), {ids.begin(), ids.end()}, true});
}

void Sender::forward(Index micro, Floats&& activations, std::span<const Id> ids) {
    check_forward(micro, activations.size(), ids);
    const std::span<const float> in_place(activations);
    send(micro, in_place, {std::move(activations), {ids.begin(), ids.end()}, false});
}

void Sender::check_forward(Index micro, std::size_t activations, std::span<const Id> ids) const {
    const std::size_t tokens = ids.size();
    const std::string batch = named(micro);
    if (micro < 0 || under_way_.contains(micro))
        throw Error(batch + " is under way already, or no number; each goes once a step, from 0 on");
    if (activations != tokens * width())
        throw Error(batch + " has " + std::to_string(activations) + " activations; " +
                    std::to_string(tokens) + " ids of width " + std::to_string(width()) + " make it " +
                    std::to_string(tokens * width()));
    for (std::size_t token = 0; token < tokens; ++token)
        if (ids[token] >= static_cast<std::uint64_t>(settings_.vocabulary))
            throw Error(batch + ": the id of token " + std::to_string(token) + " is " +
                        std::to_string(ids[token]) + "; the vocabulary is " +
                        std::to_string(settings_.vocabulary));
}

void Sender::send(Index micro, std::span<const float> activations, UnderWay made) {
    const std::size_t tokens = made.ids.size();
    // The ids stand behind Z.
    const std::size_t z_bytes = payload_bytes(tokens);
    const std::size_t each = id_bytes(settings_.vocabulary);
    const std::size_t bytes = z_bytes + tokens * each;
    Outgoing out(settings_.payload, tokens * rank(), bytes);
    compress(matrices(), made.ids, activations.data(), made.q.data(), out.values());
    if (!out.pack())
        throw Error(named(micro) + (all_finite(activations)
                                        ? " overflows when it is compressed; nothing was sent"
                                        : " has an activation that is not finite; nothing was sent"));
    std::byte* to = out.bytes() + z_bytes;
    for (const Id id : made.ids)
        for (std::size_t byte = 0; byte < each; ++byte)
            *to++ = static_cast<std::byte>(id >> (8U * byte));
    peers_.send(Traffic::payload, peer_, number(micro), out.message(), bytes);
    under_way_.emplace(micro, std::move(made));
    ++batches_;
}

Floats Sender::backward(Index micro) {
    const auto found = under_way_.find(micro);
    if (found == under_way_.end())
        throw Error("micro-batch " + std::to_string(micro) +
                    " is not under way; it has to go forward first");
    const UnderWay& of = found->second;
    const std::size_t tokens = of.ids.size();
    const std::size_t bytes = payload_bytes(tokens);
    const auto incoming = peers_.receive(Traffic::gradient, peer_, number(micro), bytes);
    Floats widened;
    const float* dz = unpacked(settings_.payload, incoming->wait(bytes), tokens * rank(), widened);
    Floats dx(tokens * width());
    decompress_gradient(matrices(), tokens, dz, dx.data());
    add_senders(matrices(), of.ids, of.q.data(), dz, dx.data(), part_.data(), anchor_sum());
    if (of.has_our_room)
        spare_.push_back(std::move(found->second.q));
    under_way_.erase(found);
    return dx;
}

bool Sender::end_step(double rate) {
    check_rate(rate);
    must_be_between_steps(under_way_.size(), "the step cannot end");
    const bool shares = settings_.anchors == Anchors::shared;
    const std::size_t table = shares ? anchor_sum_.size() : 0;
    const std::size_t bytes = (part_.size() + table) * sizeof(float);
    const auto step = static_cast<std::uint64_t>(state_.steps + 1);
    const auto incoming = peers_.receive(Traffic::parameters, peer_, step, bytes);
    const auto* theirs = reinterpret_cast<const float*>(incoming->wait(bytes));
    gradient_ = whole_gradient(part_, {theirs, part_.size()});
    for (std::size_t i = 0; i < table; ++i)
        anchor_sum_[i] += theirs[part_.size() + i];
    const bool finite = spel_step(settings_, gradient_, rate, state_.a, state_.m);
    const auto message = std::make_shared<Floats>(state_.a);
    message->insert(message->end(), anchor_sum_.begin(),
                    anchor_sum_.begin() + static_cast<std::ptrdiff_t>(table));
    peers_.send(Traffic::parameters, peer_, step, std::shared_ptr<const void>(message, message->data()),
                bytes);
    next_step(batches_);
    return finite;
}

} // namespace scape::mapl
