// Sends over a MAPL boundary: activations forward, gradients back, and the step of A.
#include <truestep/distributed/mapl/ends.hpp>

#include <string>
#include <utility>

#include <truestep/distributed/mapl/replicas.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include "agreement.hpp"

namespace truestep::distributed::mapl {

using distributed::Traffic;

Sender::Sender(const Settings& settings, EndState state, distributed::Peers& peers, int peer,
               distributed::Communicator* replicas, std::unique_ptr<Backend> backend)
    : End(settings, std::move(state), Side::sender, peers, peer, replicas, std::move(backend)),
      replicas_(replicas) {}

namespace {

std::string named(Index micro) {
    return "micro-batch " + std::to_string(micro);
}

} // namespace

void Sender::forward(Index micro, std::span<const float> activations, std::span<const Id> ids) {
    check_forward(micro, activations.size(), ids);
    send(micro, activations, {}, ids);
}

void Sender::forward(Index micro, Floats&& activations, std::span<const Id> ids) {
    check_forward(micro, activations.size(), ids);
    const std::span<const float> in_place(activations);
    send(micro, in_place, std::move(activations), ids);
}

void Sender::check_forward(Index micro, std::size_t activations, std::span<const Id> ids) const {
    const std::size_t tokens = ids.size();
    const std::string batch = named(micro);
    if (micro < 0 || under_way_.contains(micro))
        throw Error(batch + " is in flight or negative; number micro-batches from 0, once a step");
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

void Sender::send(Index micro, std::span<const float> activations, Floats given, std::span<const Id> ids) {
    const problem::Span span("forward", peers_.rank());
    Backend::CompressedBatch made = backend_->compress(activations, given, ids, next_codewords());
    if (made.message.begin == nullptr)
        throw Error(named(micro) + (backend_->finite(activations)
                                        ? " overflows when it is compressed; nothing was sent"
                                        : " has an activation that is not finite; nothing was sent"));
    peers_.send(Traffic::payload, peer_, number(micro), std::move(made.message.begin), made.message.bytes);
    under_way_.emplace(micro, std::move(made.kept));
    ++batches_;
}

void Sender::expect(Index micro) {
    const auto found = under_way_.find(micro);
    if (found == under_way_.end())
        throw Error(named(micro) + " is not under way; it has to go forward first");
    ask(Traffic::gradient, micro, payload_bytes(found->second->tokens()));
}

Floats Sender::backward(Index micro) {
    const auto found = under_way_.find(micro);
    const std::size_t size = found == under_way_.end() ? 0 : found->second->tokens() * width();
    return backend_->to_host(taken_back(micro), size);
}

std::shared_ptr<const float> Sender::backward_there(Index micro) {
    return lent(taken_back(micro));
}

Rows Sender::taken_back(Index micro) {
    const problem::Span span("backward", peers_.rank());
    const auto found = under_way_.find(micro);
    if (found == under_way_.end())
        throw Error(named(micro) + " is not under way; it has to go forward first");
    const std::size_t bytes = payload_bytes(found->second->tokens());
    const auto coming = incoming(Traffic::gradient, micro, bytes);
    Rows dx = backend_->decompress_gradient(*found->second, coming->wait(bytes));
    peers_.progress(); // expected messages made no progress meanwhile
    under_way_.erase(found);
    return dx;
}

bool Sender::end_step(double rate) {
    const problem::Span span("end step", peers_.rank());
    must_be_between_steps(under_way_.size(), "the step cannot end");
    if (replicas_ != nullptr)
        agree_on_rate(*replicas_, rate);
    check_rate(rate); // not before: the other replicas have to hear of a rate that only this one refuses
    const std::size_t bytes = step_bytes();
    const auto step = static_cast<std::uint64_t>(steps_ + 1);
    const auto incoming = peers_.receive(Traffic::parameters, peer_, step, bytes);
    backend_->add_part(incoming->wait(bytes));
    if (replicas_ != nullptr)
        follow_mean();
    const bool finite = backend_->follow(rate);
    Message subspace = backend_->subspace();
    peers_.send(Traffic::parameters, peer_, step, std::move(subspace.begin), subspace.bytes);
    next_step();
    return finite;
}

void Sender::follow_mean() {
    own_gradient_ = backend_->held(Backend::StatePart::gradient);
    Floats mean = own_gradient_;
    mean_over(*replicas_, mean);
    backend_->set_gradient(mean);
}

} // namespace truestep::distributed::mapl
