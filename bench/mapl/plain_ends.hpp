#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <truestep/distributed/mapl/ends.hpp>

// An uncompressed boundary with the interface of compressed ends.

namespace truestep::bench::mapl {

using distributed::Peers;
using distributed::Traffic;
using distributed::mapl::Floats;
using distributed::mapl::Id;
using problem::mapl::Index;

/// Sends activations unchanged.
class PlainSender {
  public:
    PlainSender(Peers& peers, int peer) : peers_(peers), peer_(peer) {}

    void forward(Index micro, Floats&& activations, const std::vector<Id>&) {
        size_ = activations.size();
        const auto message = std::make_shared<Floats>(std::move(activations));
        peers_.send(Traffic::payload, peer_, number(micro), {message, message->data()},
                    size_ * sizeof(float));
    }
    void expect(Index micro) {
        expected_[micro] = peers_.receive(Traffic::gradient, peer_, number(micro), size_ * sizeof(float));
    }
    Floats backward(Index micro) {
        const std::size_t bytes = size_ * sizeof(float);
        const auto incoming = std::exchange(expected_[micro], nullptr);
        const auto* values = reinterpret_cast<const float*>(incoming->wait(bytes));
        return {values, values + size_};
    }
    void end_step(double) { ++step_; }

  private:
    [[nodiscard]] std::uint64_t number(Index micro) const {
        return (step_ << 32U) + static_cast<std::uint64_t>(micro);
    }

    Peers& peers_;
    int peer_;
    std::uint64_t step_ = 0;
    std::size_t size_ = 0;
    std::map<Index, std::unique_ptr<distributed::IncomingMessage>> expected_;
};

class PlainReceiver {
  public:
    PlainReceiver(Peers& peers, int peer, Index width)
        : peers_(peers), peer_(peer), width_(static_cast<std::size_t>(width)) {}

    void expect(Index micro, Index tokens) {
        expected_[micro] = peers_.receive(Traffic::payload, peer_, number(micro),
                                          static_cast<std::size_t>(tokens) * width_ * sizeof(float));
    }
    distributed::mapl::Receiver::ReceivedActivations forward(Index micro, Index tokens) {
        const std::size_t size = static_cast<std::size_t>(tokens) * width_;
        const auto incoming = std::exchange(expected_[micro], nullptr);
        const auto* values = reinterpret_cast<const float*>(incoming->wait(size * sizeof(float)));
        return {{values, values + size}, {}};
    }
    void backward(Index micro, const Floats& gradient) {
        const auto message = std::make_shared<Floats>(gradient);
        peers_.send(Traffic::gradient, peer_, number(micro), {message, message->data()},
                    message->size() * sizeof(float));
    }
    void end_step() { ++step_; }

  private:
    [[nodiscard]] std::uint64_t number(Index micro) const {
        return (step_ << 32U) + static_cast<std::uint64_t>(micro);
    }

    Peers& peers_;
    int peer_;
    std::size_t width_;
    std::uint64_t step_ = 0;
    std::map<Index, std::unique_ptr<distributed::IncomingMessage>> expected_;
};

} // namespace truestep::bench::mapl
