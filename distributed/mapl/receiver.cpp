#include <scape/mapl/ends.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <scape/mapl/codec.hpp>
#include <scape/mapl/products.hpp>
#include <scape/problem/error.hpp>

#include "agreement.hpp"
#include "payload.hpp"

namespace scape::mapl {

using distributed::Traffic;

EndState first_state(const Settings& settings, Side side, std::span<const float> subspace,
                     std::span<const float> anchor) {
    EndState state;
    state.a.assign(subspace.begin(), subspace.end());
    if (side == Side::sender)
        state.m.assign(subspace.size(), 0.0F);
    if (settings.anchors != Anchors::none)
        state.anchor.assign(anchor.begin(), anchor.end());
    return state;
}

End::End(const Settings& settings, EndState state, Side side, distributed::Peers& peers, int peer)
    : settings_(settings), state_(std::move(state)), peers_(peers), peer_(peer) {
    one_thread_unless_asked();
    check(settings_);
    check_on_manifold(settings_, state_.a, state_.steps);
    const auto must_have = [](const char* what, const Floats& values, std::size_t wanted) {
        if (values.size() != wanted)
            throw Error(std::string("state: ") + what + " has " + std::to_string(values.size()) +
                        " values; the settings make it " + std::to_string(wanted));
        if (!all_finite(values))
            throw Error(std::string("state: ") + what + " has a value that is not finite");
    };
    must_have("m", state_.m, side == Side::sender ? state_.a.size() : 0);
    must_have("the anchor", state_.anchor,
              settings_.anchors == Anchors::none ? 0
                                                 : static_cast<std::size_t>(settings_.vocabulary) * rank());
    if (settings_.anchors != Anchors::none && state_.rows.empty())
        state_.rows = anchor_rows(settings_, side);
    must_have("P", state_.rows, settings_.anchors == Anchors::none ? 0 : state_.a.size());
    if (state_.codebooks.empty() && quantizes(settings_))
        state_.codebooks = first_codebooks(settings_);
    if (state_.learned.empty() && side == Side::sender)
        state_.learned = state_.codebooks;
    const std::size_t codewords = codebooks_of(settings_).size();
    must_have("the codebook", state_.codebooks, codewords);
    must_have("the learned codebook", state_.learned, side == Side::sender ? codewords : 0);
    check_codebooks(settings_, state_.codebooks, "state");
    check_codebooks(settings_, state_.learned, "state");
    check_rows(settings_, state_.rows);
    agree(peers_, peer_, side, settings_, state_);
    part_.assign(state_.a.size(), 0.0F);
    if (trains_anchor())
        anchor_sum_.assign(state_.anchor.size(), 0.0F);
    anchor_gradient_ = anchor_sum_;
    if (quantizes(settings_))
        codec_ = std::make_unique<Codec>(settings_);
}

End::~End() = default;

std::uint64_t End::number(Index micro) const {
    return static_cast<std::uint64_t>(state_.micro_batches + micro);
}

const Floats& End::subspace() {
    settle();
    return state_.a;
}

const Floats& End::anchor_gradient() {
    settle();
    return anchor_gradient_;
}

void End::set_anchor(std::span<const float> table) {
    must_be_between_steps(static_cast<std::size_t>(batches_), "an anchor cannot change");
    if (!trains_anchor() || table.size() != state_.anchor.size())
        throw Error("the anchor has " + std::to_string(table.size()) + " values; with anchors " +
                    std::string(name(settings_.anchors)) + " there is a trained one of " +
                    std::to_string(trains_anchor() ? state_.anchor.size() : 0));
    if (!all_finite(table))
        throw Error("the anchor has a value that is not finite; it stays what it was");
    state_.anchor.assign(table.begin(), table.end());
}

EndState End::state() {
    must_be_between_steps(static_cast<std::size_t>(batches_), "there is no state");
    settle();
    return state_;
}

void End::must_be_between_steps(std::size_t under_way, const char* what) const {
    if (under_way > 0)
        throw Error(std::string(what) + " while " + std::to_string(under_way) +
                    " micro-batches are under way; let them come back and the step end first");
}

SideMatrices End::matrices() const {
    const bool anchored = settings_.anchors != Anchors::none;
    return {width(),
            rank(),
            static_cast<std::size_t>(settings_.vocabulary),
            state_.a.data(),
            anchored ? state_.anchor.data() : nullptr,
            anchored ? state_.rows.data() : nullptr};
}

void End::next_step(Index micro_batches) {
    ++state_.steps;
    state_.micro_batches += micro_batches;
    batches_ = 0;
    anchor_gradient_ = anchor_sum_;
    std::fill(part_.begin(), part_.end(), 0.0F);
    std::fill(anchor_sum_.begin(), anchor_sum_.end(), 0.0F);
}

Receiver::Receiver(const Settings& settings, EndState state, distributed::Peers& peers, int peer)
    : End(settings, std::move(state), Side::receiver, peers, peer) {}

Receiver::Arrived Receiver::forward(Index micro, Index count) {
    settle();
    if (micro < 0 || count < 0 || under_way_.contains(micro))
        throw Error("micro-batch " + std::to_string(micro) +
                    " is under way already, or no number; each goes once a step, from 0 on");
    const auto tokens = static_cast<std::size_t>(count);
    const std::size_t z_bytes = codec_ ? index_bytes(settings_, tokens) : payload_bytes(tokens);
    const std::size_t each = id_bytes(settings_.vocabulary);
    const std::size_t bytes = z_bytes + tokens * each + codeword_bytes(settings_);
    auto incoming = peers_.receive(Traffic::payload, peer_, number(micro), bytes);
    const std::byte* message = incoming->wait(bytes);
    Arrived arrived{Floats(tokens * width()), std::vector<Id>(tokens)};
    for (std::size_t token = 0; token < tokens; ++token)
        for (std::size_t byte = 0; byte < each; ++byte)
            arrived.ids[token] |= static_cast<Id>(message[z_bytes + token * each + byte]) << (8U * byte);
    for (const Id id : arrived.ids)
        if (id >= static_cast<std::uint64_t>(settings_.vocabulary))
            throw distributed::Aborted("rank " + std::to_string(peer_) + " sent the id " +
                                       std::to_string(id) + "; the vocabulary is " +
                                       std::to_string(settings_.vocabulary));
    Floats widened;
    const float* z = nullptr;
    if (codec_) {
        widened = decoded(message, tokens, tokens * each);
        z = widened.data();
    } else {
        z = unpacked(settings_.payload, message, tokens * rank(), widened);
    }
    decompress(matrices(), arrived.ids, z, arrived.activations.data());
    under_way_.emplace(micro, UnderWay{std::move(incoming), std::move(widened), z, arrived.ids});
    ++batches_;
    return arrived;
}

Floats Receiver::decoded(const std::byte* message, std::size_t tokens, std::size_t id_bytes) {
    const Codebooks shape = codebooks_of(settings_);
    std::vector<Word> indices(tokens * shape.books);
    unpack_indices(message, index_bits(settings_.quantization.codewords), indices);
    for (const Word index : indices)
        if (index >= shape.words)
            throw distributed::Aborted("rank " + std::to_string(peer_) + " sent the index " +
                                       std::to_string(index) + "; there are " +
                                       std::to_string(shape.words) + " codewords");
    Floats z(tokens * rank());
    codec_->decode(indices, state_.codebooks, z.data());
    scatter_codewords(shape, travelling(settings_, travelled()),
                      message + index_bytes(settings_, tokens) + id_bytes, state_.codebooks);
    return z;
}

void Receiver::backward(Index micro, std::span<const float> gradient) {
    const auto found = under_way_.find(micro);
    const std::string batch = "micro-batch " + std::to_string(micro);
    if (found == under_way_.end())
        throw Error(batch + " is not under way; it has to come first");
    const UnderWay& of = found->second;
    const std::size_t tokens = of.ids.size();
    if (gradient.size() != tokens * width())
        throw Error(batch + " has a gradient of " + std::to_string(gradient.size()) + " values; its " +
                    std::to_string(tokens) + " tokens make it " + std::to_string(tokens * width()));
    const std::size_t bytes = payload_bytes(tokens);
    Outgoing dz(settings_.payload, tokens * rank(), bytes);
    compress_gradient(matrices(), tokens, gradient.data(), dz.values());
    if (!dz.pack())
        throw Error(batch + (all_finite(gradient)
                                 ? ": its gradient overflows when it is compressed; nothing was sent"
                                 : " has a gradient that is not finite; nothing was sent"));
    peers_.send(Traffic::gradient, peer_, number(micro), dz.message(), bytes);
    add_receivers(matrices(), of.ids, of.z, gradient.data(), part_.data(), anchor_sum());
    under_way_.erase(found);
}

void Receiver::end_step() {
    settle();
    must_be_between_steps(under_way_.size(), "the step cannot end");
    const auto message = std::make_shared<Floats>(part_);
    if (settings_.anchors == Anchors::shared)
        message->insert(message->end(), anchor_sum_.begin(), anchor_sum_.end());
    const std::size_t bytes = message->size() * sizeof(float);
    const auto step = static_cast<std::uint64_t>(state_.steps + 1);
    awaited_ = peers_.receive(Traffic::parameters, peer_, step, bytes);
    peers_.send(Traffic::parameters, peer_, step, std::shared_ptr<const void>(message, message->data()),
                bytes);
    next_step(batches_);
}

void Receiver::settle() {
    if (!awaited_)
        return;
    const bool shares = settings_.anchors == Anchors::shared;
    const std::size_t count = state_.a.size() + (shares ? anchor_gradient_.size() : 0);
    const auto* values = reinterpret_cast<const float*>(awaited_->wait(count * sizeof(float)));
    std::copy_n(values, state_.a.size(), state_.a.begin());
    if (shares)
        std::copy_n(values + state_.a.size(), anchor_gradient_.size(), anchor_gradient_.begin());
    awaited_.reset();
}

} // namespace scape::mapl
