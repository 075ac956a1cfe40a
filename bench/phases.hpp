#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <truestep/distributed/scape/forwarding_backend.hpp>

#include "measure.hpp"

namespace truestep::bench {

/// The parts of a step that a backend computes, and the rest of the step.
enum class Phase : std::uint8_t { check, local, select, decode, advance, fold, update, rest };
constexpr std::array<const char*, 8> phase_names{"check",   "local", "select", "decode",
                                                 "advance", "fold",  "update", "rest"};
using PhaseSeconds = std::array<double, phase_names.size()>;

/// Adds up, phase by phase, a backend's time by the clock given.
class PhasedBackend final : public distributed::scape::ForwardingBackend,
                            public distributed::scape::ConsumedGradients {
    using To = distributed::scape::ForwardingBackend;
    using Index = distributed::Index;
    using Refusal = distributed::scape::Refusal;
    using Scalars = distributed::Scalars;
    using Parts = std::span<const distributed::scape::MaskCode::Part>;

    template <class Work>
    auto in(Phase phase, const Work& work) {
        struct Clock {
            double& sum;
            ClockFunction now;
            double begin = now();
            ~Clock() { sum += now() - begin; }
        } const clock{seconds_[static_cast<std::size_t>(phase)], now_};
        return work();
    }

  public:
    PhasedBackend(std::unique_ptr<Backend> backend, PhaseSeconds& seconds, ClockFunction now)
        : To(std::move(backend)), consumed_(To::capabilities().consumed), seconds_(seconds), now_(now) {}

    distributed::scape::Capabilities capabilities() override {
        distributed::scape::Capabilities can = To::capabilities();
        can.consumed = can.consumed == nullptr ? nullptr : this;
        return can;
    }

    Refusal first_refused(const float* gradient) override {
        return in(Phase::check, [&] { return To::first_refused(gradient); });
    }
    void local_pass(const Scalars& scalars, const float* gradient) override {
        in(Phase::local, [&] { To::local_pass(scalars, gradient); });
    }
    Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) override {
        return in(Phase::local, [&] { return consumed_->local_pass_over(scalars, gradient); });
    }
    void keep(distributed::AlignedFloats& gradient) override { consumed_->keep(gradient); }
    void roll_back() override { consumed_->roll_back(); }
    void select(Parts own, std::size_t at) override {
        in(Phase::select, [&] { To::select(own, at); });
    }
    void decode_mask(Parts all) override {
        in(Phase::decode, [&] { To::decode_mask(all); });
    }
    void advance_mask() override {
        in(Phase::advance, [&] { To::advance_mask(); });
    }
    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        in(Phase::fold, [&] { To::fold(scalars, ranks, at, count); });
    }
    void reconstruct(const Scalars& scalars, double clip_norm) override {
        in(Phase::update, [&] { To::reconstruct(scalars, clip_norm); });
    }
    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        return in(Phase::update, [&] { return To::update(correction, scalars); });
    }

  private:
    distributed::scape::ConsumedGradients* consumed_;
    PhaseSeconds& seconds_;
    ClockFunction now_;
};

} // namespace truestep::bench
