// Receives over a MAPL boundary, and holds the state that senders have in the same way.
#include <truestep/distributed/mapl/ends.hpp>

#include <string>
#include <utility>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "agreement.hpp"

namespace truestep::distributed::mapl {

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

namespace {

/// Refuses a state that does not fit the settings, and fills in what it leaves open.
EndState completed(const Settings& settings, EndState state, Side side) {
    const bool anchored = settings.anchors != Anchors::none;
    const auto must_have = [](const char* what, const Floats& values, std::size_t wanted) {
        if (values.size() != wanted)
            throw Error(std::string("state: ") + what + " has " + std::to_string(values.size()) +
                        " values; the settings make it " + std::to_string(wanted));
        if (!all_finite(values))
            throw Error(std::string("state: ") + what + " has a value that is not finite");
    };
    must_have("m", state.m, side == Side::sender ? state.a.size() : 0);
    must_have("the anchor", state.anchor,
              anchored ? static_cast<std::size_t>(settings.vocabulary * settings.rank) : 0);
    if (anchored && state.rows.empty())
        state.rows = anchor_rows(settings, side);
    must_have("P", state.rows, anchored ? state.a.size() : 0);
    if (state.codebooks.empty() && quantizes(settings))
        state.codebooks = first_codebooks(settings);
    if (state.learned.empty() && side == Side::sender)
        state.learned = state.codebooks;
    const std::size_t codewords = codebooks_of(settings).size();
    must_have("the codebook", state.codebooks, codewords);
    must_have("the learned codebook", state.learned, side == Side::sender ? codewords : 0);
    check_codebooks(settings, state.codebooks, "state");
    check_codebooks(settings, state.learned, "state");
    check_rows(settings, state.rows);
    return state;
}

} // namespace

End::End(const Settings& settings, EndState state, Side side, distributed::Peers& peers, int peer,
         distributed::Communicator* replicas, std::unique_ptr<Backend> backend)
    : settings_(settings), peers_(peers), peer_(peer), steps_(state.steps),
      micro_batches_(state.micro_batches), backend_(std::move(backend)) {
    if (!backend_)
        backend_ = make_host_backend();
    one_thread_unless_asked();
    for (const Traffic traffic : {Traffic::payload, Traffic::gradient, Traffic::parameters})
        if (backend_->in_host_memory() != peers_.host_can_read(traffic))
            throw Error("an end's messages stand " +
                        std::string(backend_->in_host_memory() ? "in the host's memory" : "on a device") +
                        ", and its peers (" + peers_.name() +
                        ") look for them elsewhere; take the peers that are made for the backend");
    check(settings_);
    check_on_manifold(settings_, state.a, state.steps);
    EndState whole = completed(settings_, std::move(state), side);
    agree(peers_, peer_, side, settings_, whole);
    if (replicas != nullptr)
        agree_among(*replicas, settings_, whole);
    backend_->begin(settings_, side, std::move(whole));
}

std::uint64_t End::number(Index micro) const {
    return static_cast<std::uint64_t>(micro_batches_ + micro);
}

std::size_t End::step_bytes() const {
    const Index values =
        settings_.width + (settings_.anchors == Anchors::shared ? settings_.vocabulary : 0);
    return static_cast<std::size_t>(values * settings_.rank) * sizeof(float);
}

std::vector<Word> End::next_codewords() const {
    return quantizes(settings_) ? travelling(settings_, micro_batches_ + batches_) : std::vector<Word>();
}

const Floats& End::subspace() {
    wait_idle();
    return backend_->held(Backend::StatePart::a);
}

const Floats& End::anchor_gradient() {
    wait_idle();
    return backend_->held(Backend::StatePart::anchor_gradient);
}

void End::set_anchor(std::span<const float> table) {
    must_be_between_steps(static_cast<std::size_t>(batches_), "an anchor cannot change");
    const std::size_t wanted =
        trains_anchor() ? static_cast<std::size_t>(settings_.vocabulary * settings_.rank) : 0;
    if (!trains_anchor() || table.size() != wanted)
        throw Error("the anchor has " + std::to_string(table.size()) + " values; with anchors " +
                    std::string(name(settings_.anchors)) + " the trained anchor has " +
                    std::to_string(wanted));
    if (!backend_->finite(table))
        throw Error("the anchor is refused: a value is not finite; the old anchor is kept");
    backend_->set_anchor(table);
}

EndState End::state() {
    must_be_between_steps(static_cast<std::size_t>(batches_) + expected_.size(), "there is no state");
    wait_idle();
    using StatePart = Backend::StatePart;
    EndState state{.steps = steps_, .micro_batches = micro_batches_};
    state.a = backend_->held(StatePart::a);
    state.m = backend_->held(StatePart::m);
    state.anchor = backend_->held(StatePart::anchor);
    state.rows = backend_->held(StatePart::rows);
    state.codebooks = backend_->held(StatePart::codebooks);
    state.learned = backend_->held(StatePart::learned);
    return state;
}

void End::must_be_between_steps(std::size_t under_way, const char* what) const {
    if (under_way > 0)
        throw Error(std::string(what) + " while " + std::to_string(under_way) +
                    " micro-batches are under way; let them come back and the step end first");
}

void End::ask(Traffic traffic, Index micro, std::size_t bytes) {
    if (expected_.contains(micro))
        throw Error("micro-batch " + std::to_string(micro) + " is expected already; call expect() once");
    expected_.emplace(micro, ExpectedMessage{bytes, peers_.receive(traffic, peer_, number(micro), bytes)});
}

std::unique_ptr<distributed::IncomingMessage> End::incoming(Traffic traffic, Index micro,
                                                            std::size_t bytes) {
    const auto found = expected_.find(micro);
    if (found == expected_.end())
        return peers_.receive(traffic, peer_, number(micro), bytes);
    if (found->second.bytes != bytes)
        throw Error("micro-batch " + std::to_string(micro) + ": expect() gave " +
                    std::to_string(found->second.bytes) + " bytes, receive asks for " +
                    std::to_string(bytes) + "; pass the same number of tokens to both");
    std::unique_ptr<distributed::IncomingMessage> message = std::move(found->second.message);
    expected_.erase(found);
    return message;
}

void End::next_step() {
    ++steps_;
    micro_batches_ += batches_;
    batches_ = 0;
    backend_->end_step();
}

Receiver::Receiver(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
                   std::unique_ptr<Backend> backend)
    : End(settings, std::move(state), Side::receiver, peers, peer, nullptr, std::move(backend)) {}

Receiver::ReceivedActivations Receiver::forward(Index micro, Index tokens) {
    ReceivedMessage came = arrived(micro, tokens);
    return {backend_->to_host(std::move(came.rows), static_cast<std::size_t>(tokens) * width()),
            std::move(came.ids)};
}

Receiver::ReceivedActivationsThere Receiver::forward_there(Index micro, Index tokens) {
    ReceivedMessage came = arrived(micro, tokens);
    return {lent(std::move(came.rows)), std::move(came.ids)};
}

std::size_t Receiver::bytes_of(Index micro, Index tokens) const {
    if (micro < 0 || tokens < 0 || under_way_.contains(micro))
        throw Error("micro-batch " + std::to_string(micro) +
                    " is in flight or negative; number micro-batches from 0, once a step");
    return forward_layout(settings_, static_cast<std::size_t>(tokens)).bytes;
}

void Receiver::expect(Index micro, Index tokens) {
    ask(Traffic::payload, micro, bytes_of(micro, tokens));
}

Receiver::ReceivedMessage Receiver::arrived(Index micro, Index count) {
    const problem::Span span("forward", peers_.rank());
    wait_idle();
    const std::size_t bytes = bytes_of(micro, count);
    const auto tokens = static_cast<std::size_t>(count);
    auto coming = incoming(Traffic::payload, micro, bytes);
    const std::byte* message = coming->wait(bytes);
    std::unique_ptr<BatchState> kept = backend_->arrive(std::move(coming), message, tokens);
    check_arrived(*kept);
    ReceivedMessage came{backend_->decompress(*kept, next_codewords()), kept->ids};
    peers_.progress(); // expected messages made no progress meanwhile
    under_way_.emplace(micro, std::move(kept));
    ++batches_;
    return came;
}

void Receiver::check_arrived(BatchState& kept) {
    for (const Id id : kept.ids)
        if (id >= static_cast<std::uint64_t>(settings_.vocabulary))
            throw distributed::Aborted("rank " + std::to_string(peer_) + " sent the id " +
                                       std::to_string(id) + "; the vocabulary is " +
                                       std::to_string(settings_.vocabulary));
    if (!quantizes(settings_))
        return;
    if (const std::optional<Word> wrong = backend_->wrong_index(kept))
        throw distributed::Aborted("rank " + std::to_string(peer_) + " sent the index " +
                                   std::to_string(*wrong) + "; there are " +
                                   std::to_string(settings_.quantization.codewords) + " codewords");
}

void Receiver::backward(Index micro, std::span<const float> gradient) {
    const problem::Span span("backward", peers_.rank());
    const auto found = under_way_.find(micro);
    const std::string batch = "micro-batch " + std::to_string(micro);
    if (found == under_way_.end())
        throw Error(batch + " is not under way; it has to come first");
    BatchState& kept = *found->second;
    const std::size_t tokens = kept.tokens();
    if (gradient.size() != tokens * width())
        throw Error(batch + " has a gradient of " + std::to_string(gradient.size()) + " values; its " +
                    std::to_string(tokens) + " tokens make it " + std::to_string(tokens * width()));
    Message dz = backend_->compress_gradient(kept, gradient);
    if (dz.begin == nullptr)
        throw Error(batch + (backend_->finite(gradient)
                                 ? ": its gradient overflows when it is compressed; nothing was sent"
                                 : " has a gradient that is not finite; nothing was sent"));
    peers_.send(Traffic::gradient, peer_, number(micro), std::move(dz.begin), dz.bytes);
    backend_->add_receivers(kept, gradient);
    peers_.progress(); // expected messages made no progress meanwhile
    under_way_.erase(found);
}

void Receiver::end_step() {
    const problem::Span span("end step", peers_.rank());
    wait_idle();
    must_be_between_steps(under_way_.size() + expected_.size(), "the step cannot end");
    const auto step = static_cast<std::uint64_t>(steps_ + 1);
    Message part = backend_->part();
    awaited_ = peers_.receive(Traffic::parameters, peer_, step, part.bytes);
    peers_.send(Traffic::parameters, peer_, step, std::move(part.begin), part.bytes);
    next_step();
}

void Receiver::wait_idle() {
    if (!awaited_)
        return;
    backend_->take_subspace(awaited_->wait(step_bytes()));
    awaited_.reset();
}

} // namespace truestep::distributed::mapl
