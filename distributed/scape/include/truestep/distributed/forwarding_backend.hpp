#pragma once

#include <memory>
#include <utility>

#include <truestep/distributed/backend.hpp>

namespace truestep::distributed {

/// A backend that passes everything on to another one: for whoever wants to see, or change, one thing of
/// it.
class ForwardingBackend : public Backend {
  public:
    explicit ForwardingBackend(std::unique_ptr<Backend> to) : to_(std::move(to)) {}

    Refusal first_refused(const float* gradient) override { return to_->first_refused(gradient); }
    void foresee(std::span<const MaskCode::Part> own) override { to_->foresee(own); }
    void local_pass(const Scalars& scalars, const float* gradient) override {
        to_->local_pass(scalars, gradient);
    }
    void extract_payload() override { to_->extract_payload(); }
    bool uses_up_gradients() const override { return to_->uses_up_gradients(); }
    Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) override {
        return to_->local_pass_over(scalars, gradient);
    }
    void keep(AlignedFloats& gradient) override { to_->keep(gradient); }
    void take_back() override { to_->take_back(); }
    bool codes_for_itself() const override { return to_->codes_for_itself(); }
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
    void settle() noexcept override { to_->settle(); }

    bool takes_parts() const override { return to_->takes_parts(); }
    void accumulate(const float* gradient, bool first) override { to_->accumulate(gradient, first); }
    const float* accumulated() override { return to_->accumulated(); }
    float* gather(std::size_t bucket, const Scalars& scalars, const float* gradient, bool added,
                  std::span<const problem::Range> where) override {
        return to_->gather(bucket, scalars, gradient, added, where);
    }
    void fold_in(std::size_t bucket, const Scalars& scalars, int ranks, Index at, Index count) override {
        to_->fold_in(bucket, scalars, ranks, at, count);
    }
    void place(std::size_t bucket, std::span<const problem::Range> where) override {
        to_->place(bucket, where);
    }
    void forget_received() override { to_->forget_received(); }

    bool rounds_payloads() const override { return to_->rounds_payloads(); }
    Refusal first_overflow(const Scalars& scalars, const float* gradient) override {
        return to_->first_overflow(scalars, gradient);
    }
    int payload_exponent() override { return to_->payload_exponent(); }
    void scale_payload(int exponent) override { to_->scale_payload(exponent); }
    void round_payload() override { to_->round_payload(); }
    std::byte* round_means(Index at, Index count) override { return to_->round_means(at, count); }
    std::byte* round_means_in(std::size_t bucket, Index at, Index count) override {
        return to_->round_means_in(bucket, at, count);
    }
    void take_means(const Scalars& scalars, problem::Range own) override { to_->take_means(scalars, own); }
    void take_means_of(std::size_t bucket, const Scalars& scalars, problem::Range own,
                       std::span<const problem::Range> where) override {
        to_->take_means_of(bucket, scalars, own, where);
    }

    bool adds_groups() const override { return to_->adds_groups(); }
    float* received_sums(Index count) override { return to_->received_sums(count); }
    void fold_sums(const Scalars& scalars, int groups, Index count, const float* sums,
                   float* means) override {
        to_->fold_sums(scalars, groups, count, sums, means);
    }

    float* payload() override { return to_->payload(); }
    const void* sent() override { return to_->sent(); }
    const void* sent(std::size_t bucket) override { return to_->sent(bucket); }
    void* received(Index count) override { return to_->received(count); }
    int rooms() const override { return to_->rooms(); }
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

} // namespace truestep::distributed
