#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include <scape/distributed/backend.hpp>

#include "measure.hpp"

namespace scape::bench {

/// The parts of a step that a backend computes, and what is left of it.
enum class Phase : std::uint8_t { check, local, select, decode, advance, fold, update, rest };
constexpr std::array<const char*, 8> phase_names{"check",   "local", "select", "decode",
                                                 "advance", "fold",  "update", "rest"};
using PhaseSeconds = std::array<double, phase_names.size()>;

/// A backend that adds up, phase by phase, the processor time that another one takes in the caller's
/// thread.
class PhasedBackend final : public distributed::Backend {
    using Index = distributed::Index;

    template <class Work>
    auto in(Phase phase, const Work& work) {
        struct Clock {
            double& sum;
            double begin = thread_seconds();
            ~Clock() { sum += thread_seconds() - begin; }
        } const clock{seconds_[static_cast<std::size_t>(phase)]};
        return work();
    }

  public:
    PhasedBackend(std::unique_ptr<Backend> backend, PhaseSeconds& seconds)
        : backend_(std::move(backend)), seconds_(seconds) {}

    Refusal first_refused(const float* gradient) override {
        return in(Phase::check, [&] { return backend_->first_refused(gradient); });
    }
    void local_pass(const distributed::Scalars& scalars, const float* gradient) override {
        in(Phase::local, [&] { backend_->local_pass(scalars, gradient); });
    }
    void extract_payload() override {
        in(Phase::local, [&] { backend_->extract_payload(); });
    }
    void select(std::span<const distributed::MaskCode::Part> own, std::size_t at) override {
        in(Phase::select, [&] { backend_->select(own, at); });
    }
    void decode_mask(std::span<const distributed::MaskCode::Part> all) override {
        in(Phase::decode, [&] { backend_->decode_mask(all); });
    }
    void advance_mask() override {
        in(Phase::advance, [&] { backend_->advance_mask(); });
    }
    void fold(const distributed::Scalars& scalars, int ranks, Index at, Index count) override {
        in(Phase::fold, [&] { backend_->fold(scalars, ranks, at, count); });
    }
    void divide(const distributed::Scalars& scalars, Index at, Index count) override {
        in(Phase::fold, [&] { backend_->divide(scalars, at, count); });
    }
    void reconstruct(const distributed::Scalars& scalars, double clip_norm) override {
        in(Phase::update, [&] { backend_->reconstruct(scalars, clip_norm); });
    }
    Verdict update(problem::BiasCorrection correction, const distributed::Scalars& scalars) override {
        return in(Phase::update, [&] { return backend_->update(correction, scalars); });
    }
    void settle() noexcept override { backend_->settle(); }

    float* payload() override { return backend_->payload(); }
    void* received(Index count) override { return backend_->received(count); }
    int rooms() const override { return backend_->rooms(); }
    float* moment() override { return backend_->moment(); }
    std::uint8_t* mask_code(std::size_t bytes) override { return backend_->mask_code(bytes); }

    const distributed::Mask& current_mask() const override { return backend_->current_mask(); }
    const distributed::Mask& coming_mask() const override { return backend_->coming_mask(); }
    std::span<const float> parameters() override { return backend_->parameters(); }
    std::span<const float> residual() override { return backend_->residual(); }
    std::span<const float> packed_moment() override { return backend_->packed_moment(); }
    void restore(std::span<const float> parameters, std::span<const float> residual,
                 std::span<const float> packed_moment, const distributed::Mask& current,
                 const distributed::Mask& coming) override {
        backend_->restore(parameters, residual, packed_moment, current, coming);
    }

  private:
    std::unique_ptr<Backend> backend_;
    PhaseSeconds& seconds_;
};

} // namespace scape::bench
