#include <scape/mapl/ends.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <scape/mapl/codec.hpp>
#include <scape/mapl/replicas.hpp>
#include <scape/mapl/spel_step.hpp>
#include <scape/problem/error.hpp>

#include "agreement.hpp"
#include "payload.hpp"

namespace scape::mapl {

using distributed::Traffic;

Sender::Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
               distributed::Communicator* replicas)
    : End(settings, std::move(state), Side::sender, peers, peer), replicas_(replicas) {
    if (replicas_ != nullptr)
        agree_among(*replicas_, settings_, state_);
}

namespace {

std::string named(Index micro) {
    return "micro-batch " + std::to_string(micro);
}

std::string cannot_go(Index micro, std::span<const float> activations) {
    return named(micro) + (all_finite(activations)
                               ? " overflows when it is compressed; nothing was sent"
                               : " has an activation that is not finite; nothing was sent");
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
    Message message = codec_ ? indices(micro, activations, made) : values(micro, activations, made);
    for (const Id id : made.ids)
        for (std::size_t byte = 0; byte < id_bytes(settings_.vocabulary); ++byte)
            *message.ids++ = static_cast<std::byte>(id >> (8U * byte));
    peers_.send(Traffic::payload, peer_, number(micro), std::move(message.owner), message.bytes);
    under_way_.emplace(micro, std::move(made));
    ++batches_;
}

Sender::Message Sender::values(Index micro, std::span<const float> activations, UnderWay& made) {
    const std::size_t tokens = made.ids.size();
    const std::size_t z_bytes = payload_bytes(tokens);
    const std::size_t bytes = z_bytes + tokens * id_bytes(settings_.vocabulary);
    Outgoing out(settings_.payload, tokens * rank(), bytes);
    compress(matrices(), made.ids, activations.data(), made.q.data(), out.values());
    if (!out.pack())
        throw Error(cannot_go(micro, activations));
    return {out.message(), out.bytes() + z_bytes, bytes};
}

Sender::Message Sender::indices(Index micro, std::span<const float> activations, UnderWay& made) {
    const std::size_t tokens = made.ids.size();
    Floats z(tokens * rank());
    compress(matrices(), made.ids, activations.data(), made.q.data(), z.data());
    if (!all_finite(z))
        throw Error(cannot_go(micro, activations));
    Floats learned = state_.learned;
    const std::vector<Word> chosen = codec_->encode(z, state_.codebooks, learned);
    if (!all_finite(learned))
        throw Error(cannot_go(micro, activations));
    state_.learned = std::move(learned);
    const std::size_t ids_at = index_bytes(settings_, tokens);
    const std::size_t words_at = ids_at + tokens * id_bytes(settings_.vocabulary);
    const std::size_t bytes = words_at + codeword_bytes(settings_);
    const auto message = std::make_shared<std::vector<std::byte>>(bytes);
    std::byte* begin = message->data();
    pack_indices(chosen, index_bits(settings_.quantization.codewords), begin);
    const std::vector<Word> words = travelling(settings_, travelled());
    const Codebooks shape = codebooks_of(settings_);
    gather_codewords(shape, words, state_.learned, begin + words_at);
    scatter_codewords(shape, words, begin + words_at, state_.codebooks);
    return {std::shared_ptr<const void>(message, begin), begin + ids_at, bytes};
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
    if (replicas_ != nullptr) {
        own_gradient_ = gradient_;
        mean_over(*replicas_, gradient_);
    }
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
