#pragma once

#include <memory>
#include <utility>

#include <truestep/distributed/scape/backend.hpp>

namespace truestep::distributed::scape {

/// A backend that forwards everything to another one, for code that observes or changes one thing.
/// Its capabilities are those of the other, unless capabilities() is overridden.
class ForwardingBackend : public Backend {
  public:
    explicit ForwardingBackend(std::unique_ptr<Backend> to) : to_(std::move(to)) {}

    Capabilities capabilities() override { return to_->capabilities(); }
    Refusal first_refused(const float* gradient) override { return to_->first_refused(gradient); }
    void hint_next_selection(std::span<const MaskCode::Part> own) override {
        to_->hint_next_selection(own);
    }
    void local_pass(const Scalars& scalars, const float* gradient) override {
        to_->local_pass(scalars, gradient);
    }
    void extract_payload() override { to_->extract_payload(); }
    void select(std::span<const MaskCode::Part> own, std::size_t at) override { to_->select(own, at); }
    void decode_mask(std::span<const MaskCode::Part> all) override { to_->decode_mask(all); }
    void advance_mask() override { to_->advance_mask(); }
    void fold(const Scalars& scalars, int ranks, Index at, Index count) override {
        to_->fold(scalars, ranks, at, count);
    }
    void divide(const Scalars& scalars, Index at, Index count) override { to_->divide(scalars, at, count); }
    void reconstruct(const Scalars& scalars, double clip_norm) override {
        to_->reconstruct(scalars, clip_norm);
    }
    Verdict update(problem::BiasCorrection correction, const Scalars& scalars) override {
        return to_->update(correction, scalars);
    }
    void wait_idle() noexcept override { to_->wait_idle(); }

    float* payload() override { return to_->payload(); }
    const void* sent() override { return to_->sent(); }
    void* received(Index count) override { return to_->received(count); }
    float* moment() override { return to_->moment(); }
    std::uint8_t* mask_code(std::size_t bytes) override { return to_->mask_code(bytes); }

    const Mask& current_mask() const override { return to_->current_mask(); }
    const Mask& coming_mask() const override { return to_->coming_mask(); }
    std::span<const float> parameters() override { return to_->parameters(); }
    std::span<const float> residual() override { return to_->residual(); }
    std::span<const float> packed_moment() override { return to_->packed_moment(); }
    void restore(std::span<const float> parameters, std::span<const float> residual,
                 std::span<const float> packed_moment, const Mask& current, const Mask& coming) override {
        to_->restore(parameters, residual, packed_moment, current, coming);
    }

  private:
    std::unique_ptr<Backend> to_;
};

} // namespace truestep::distributed::scape
