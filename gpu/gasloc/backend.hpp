#pragma once

#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/gasloc/devices.hpp>

#include "algorithms/meeting.hpp"

namespace truestep::gpu::gasloc {

/// The backend that launches blocks on a machine. The order of algorithms and their memory are the
/// same for a device and for its host form. gpu/scape/backend.hpp describes a machine.
template <class Machine>
class BlockBackend final : public Backend {
  public:
    explicit BlockBackend(Machine machine) : machine_(std::move(machine)) {
        machine_.resize(not_finite_, 1);
    }
    BlockBackend(const BlockBackend&) = delete;
    BlockBackend& operator=(const BlockBackend&) = delete;
    /// Launched work uses memory that is about to go. An error has been reported before.
    ~BlockBackend() override {
        try {
            machine_.finish();
        } catch (...) { // NOLINT(bugprone-empty-catch)
        }
    }

    void begin(State state, Momentum momentum) override {
        momentum_ = momentum;
        size_ = static_cast<Index>(state.theta.size());
        set(theta_, state.theta);
        set(m_, state.m);
        set(v_, state.v);
        machine_.resize(m_now_, m_.size());
        machine_.resize(v_now_, v_.size());
        if (momentum_ == Momentum::gossiped) {
            set(before_z_, state.before);
        } else {
            before_ = unused();
            machine_.upload(before_->data(), state.before.data(), size_);
        }
        x_ = unused();
        machine_.finish(); // the state goes
    }

    bool inner(distributed::InnerRule rule, const distributed::Scalars& scalars, bool first,
               const float* gradient) override {
        const gpu::gasloc::InnerArguments arguments{scalars,
                                                    size_,
                                                    machine_.gradient(gradient, size_),
                                                    first ? theta_.data() : x_->data(),
                                                    first ? m_.data() : m_now_.data(),
                                                    first ? v_.data() : v_now_.data(),
                                                    x_->data(),
                                                    m_now_.data(),
                                                    v_now_.data(),
                                                    not_finite_.data()};
        machine_.fill(not_finite_, 0);
        switch (rule) {
        case distributed::InnerRule::sgd:
            machine_.template run<gpu::gasloc::SgdStep>(tiles(), arguments);
            break;
        case distributed::InnerRule::adams:
            machine_.template run<gpu::gasloc::AdamSStep>(tiles(), arguments);
            break;
        case distributed::InnerRule::adams_momentum:
            machine_.template run<gpu::gasloc::AdamSMomentumStep>(tiles(), arguments);
            break;
        case distributed::InnerRule::adamw:
            machine_.template run<gpu::gasloc::AdamWStep>(tiles(), arguments);
            break;
        }
        return all_finite();
    }

    void make_y(bool drifts, float eta) override {
        machine_.template run<gpu::gasloc::Drift>(tiles(), {size_, drifts, eta, theta_.data(), x_->data()});
    }

    std::shared_ptr<const void> lend_y() override { return {x_, x_->data()}; }

    bool gossip(const distributed::Gossip& gossip, Index, Index) override {
        const auto count = static_cast<Index>(gossip.met.size());
        machine_.resize(met_, count);
        machine_.upload(met_.data(), gossip.met.data(), count);
        machine_.fill(not_finite_, 0);
        machine_.template run<gpu::gasloc::Meet>(
            tiles(), {size_, met_.data(), count, gossip.a, gossip.gamma, gossip.carries, gossip.of_gossiped,
                      x_->data(), before().data(), theta_.data(), not_finite_.data()});
        return all_finite();
    }

    /// One piece: a launch for each piece would cost more than it hides.
    Index piece() const override { return std::numeric_limits<Index>::max(); }

    void end_round(bool keeps) override {
        if (keeps) {
            m_.swap(m_now_);
            v_.swap(v_now_);
        }
        if (momentum_ == Momentum::local)
            before_ = x_;
        x_ = nullptr;
        x_ = unused();
    }

    std::span<const float> parameters(bool of_x) override {
        mirror_ = downloaded(of_x ? *x_ : theta_);
        return mirror_;
    }
    const float* in_place(bool of_x) override { return of_x ? x_->data() : theta_.data(); }

    State state() override {
        return {0, 0, downloaded(theta_), downloaded(before()), downloaded(m_), downloaded(v_)};
    }

  private:
    template <class T>
    using Vector = typename Machine::template Vector<T>;
    using Floats = Vector<float>;
    using Shared = std::shared_ptr<Floats>;

    [[nodiscard]] Index tiles() const { return (size_ + gpu::tile - 1) / gpu::tile; }
    [[nodiscard]] Floats& before() { return momentum_ == Momentum::gossiped ? before_z_ : *before_; }

    /// Waits for the last launch and returns whether it found all values finite.
    [[nodiscard]] bool all_finite() {
        std::uint32_t found = 0;
        machine_.download(&found, not_finite_.data(), 1);
        return found == 0;
    }

    /// Callers may hold pointers to what there is, so its memory must not move.
    void set(Floats& to, const std::vector<float>& from) {
        if (to.size() != static_cast<Index>(from.size()))
            machine_.resize(to, static_cast<Index>(from.size()));
        machine_.upload(to.data(), from.data(), to.size());
    }
    [[nodiscard]] std::vector<float> downloaded(const Floats& from) {
        std::vector<float> to(static_cast<std::size_t>(from.size()));
        machine_.download(to.data(), from.data(), from.size());
        return to;
    }

    /// A vector that no one reads, except peers whose work is already on this stream.
    [[nodiscard]] Shared unused() {
        for (const Shared& vector : pool_)
            if (distributed::is_let_go(vector))
                return vector;
        pool_.push_back(std::make_shared<Floats>());
        machine_.resize(*pool_.back(), size_);
        return pool_.back();
    }

    Machine machine_;
    Momentum momentum_ = Momentum::local;
    Index size_ = 0;
    Floats theta_;
    Floats before_z_; ///< placement gossiped
    std::vector<Shared> pool_;
    Shared before_; ///< placement local: the last y
    Shared x_;      ///< of this round; y when it ends
    /// Moments at the begin of the round, and the current ones.
    Floats m_, m_now_, v_, v_now_;
    Vector<distributed::NeighbourVector> met_;
    Vector<std::uint32_t> not_finite_;
    std::vector<float> mirror_;
};

} // namespace truestep::gpu::gasloc
