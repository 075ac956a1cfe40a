#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/element.hpp>
#include <truestep/distributed/mask.hpp>
#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// The first coordinate that a backend refuses.
struct Refusal {
    Index index = 0; ///< d where nothing is refused
    float value = 0.0F;
};

/// A gradient that a step may consume (section 20).
class ConsumedGradients {
  public:
    virtual ~ConsumedGradients() = default;

    /// first_refused() and local_pass() in one, with the residual in the gradient's place. The state stays
    /// as it was: what select() and what follows work on has changed, until one of the two that follow.
    [[nodiscard]] virtual Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) = 0;
    /// All ranks go on: what stands in the gradient's place is the residual, which gives its own for it.
    virtual void keep(AlignedFloats& gradient) = 0;
    /// The step was refused, or ended: S_t is the coming mask again, and the last one S_t.
    virtual void take_back() = 0;
};

/// A step in parts (section 20). None of this changes the state.
class GradientParts {
  public:
    virtual ~GradientParts() = default;

    /// A part of the gradient is added to those before it, or is the first.
    virtual void accumulate(const float* gradient, bool first) = 0;
    [[nodiscard]] virtual const float* accumulated() = 0; ///< their sum
    /// c on the coming mask, packed, of the coordinates of one bucket, which ascend; where it is `added` to
    /// earlier parts, `gradient` is the last one. Returns where it stands until the next step.
    [[nodiscard]] virtual float* gather(std::size_t bucket, const Scalars& scalars, const float* gradient,
                                        bool added, std::span<const problem::Range> where) = 0;
    /// What stands there as it travels.
    [[nodiscard]] virtual const void* sent_of(std::size_t bucket) = 0;
    /// fold() in such a place.
    virtual void fold_in(std::size_t bucket, const Scalars& scalars, int ranks, Index at, Index count) = 0;
    /// What stands there goes to its places in moment(), on S_t.
    virtual void place(std::size_t bucket, std::span<const problem::Range> where) = 0;
    /// What has been received and not folded is not folded.
    virtual void forget_received() = 0;
};

/// A payload that is rounded (section 21), of a backend that was made for such a problem.
class RoundedPayloads {
  public:
    virtual ~RoundedPayloads() = default;

    /// The first coordinate of the coming mask whose c bf16 does not hold. Changes nothing.
    [[nodiscard]] virtual Refusal first_overflow(const Scalars& scalars, const float* gradient) = 0;
    /// Of e5m2, the exponents as fp32 holds them: the greatest of the payload, before it is rounded, 0
    /// where all of it is below a normal number; and the one that all rounding from now on has its scale
    /// from.
    [[nodiscard]] virtual int payload_exponent() = 0;
    virtual void scale_payload(int exponent) = 0;
    /// The payload as it travels, and in e what that took of it. After select(), which scores what was
    /// there.
    virtual void round_payload() = 0;
    // Where the owner rounds M, too. `count` means of this rank stand from `at` on in moment(), or where
    // the values of a bucket stood. Returns where all ranks' are as they travel: its own are, at their
    // places.
    [[nodiscard]] virtual std::byte* round_means(Index at, Index count) = 0;
    [[nodiscard]] virtual std::byte* round_means_in(std::size_t bucket, Index at, Index count) = 0;
    /// All have come: they go to moment(), and what rounding has taken of those of this rank's coordinates
    /// `own` to e.
    virtual void take_means(const Scalars& scalars, problem::Range own) = 0;
    virtual void take_means_of(std::size_t bucket, const Scalars& scalars, problem::Range own,
                               std::span<const problem::Range> where) = 0;
};

/// Ranks in groups (section 32).
class GroupSums {
  public:
    virtual ~GroupSums() = default;

    /// Room for `count` values that groups have added, in fp32, until so many rooms more
    /// (Capabilities::rooms) have been handed out.
    [[nodiscard]] virtual float* received_sums(Index count) = 0;
    /// The mean of `groups` parts of `count` values there.
    virtual void fold_sums(const Scalars& scalars, int groups, Index count, const float* sums,
                           float* means) = 0;
};

/// What a backend can do beside a whole step in fp32, on one level: null where it cannot.
struct Capabilities {
    ConsumedGradients* consumed = nullptr;
    GradientParts* parts = nullptr;
    RoundedPayloads* rounding = nullptr;
    GroupSums* groups = nullptr;
    /// Of one rank alone the mask in the making need not be coded: decode_mask() takes it as it was made.
    bool codes_for_itself = true;
    /// How many rooms received() hands out in turn before the first has to be folded, which fold() does in
    /// the same order.
    int rooms = 1;
};

/// Where one rank's vectors live, and who computes on them. The step calls these in the order of section 4;
/// what lies between two calls is the communicator's. A backend never communicates.
///
/// A backend may compute behind its caller's back: only what returns a value has to wait. What is known
/// from the problem alone, such as how much a mask selects, is never asked of it within a step.
///
/// Buffers: w and e have d floats. Two masks rotate: `last`, on which m is packed, and `current`, S_t.
/// Three packed buffers rotate: the payload, which becomes M, which becomes m.
class Backend {
  public:
    virtual ~Backend() = default;

    [[nodiscard]] virtual Capabilities capabilities() { return {}; }

    /// Section 4.1: the first refused coordinate of the gradient. The gradient is where the backend
    /// computes.
    [[nodiscard]] virtual Refusal first_refused(const float* gradient) = 0;

    /// Section 4.2, 4.4, 4.6: c from m, g and e; c on S_t to the payload, e = 0 there and c elsewhere. m is
    /// moved to S_t, which frees `last` for the mask in the making.
    virtual void local_pass(const Scalars& scalars, const float* gradient) = 0;
    /// What select() will be asked for behind the coming local pass, which may look for it on its way.
    virtual void foresee(std::span<const MaskCode::Part> /*own*/) {}
    /// At the bootstrap S_1 is made from c_1: then the local pass ran with an empty mask, and this does the
    /// rest.
    virtual void extract_payload() = 0;

    /// Section 4.3: takes the top k of this rank's segments by |c| and writes their code to mask_code(), at
    /// `at`.
    virtual void select(std::span<const MaskCode::Part> own, std::size_t at) = 0;
    /// The gathered code of all segments becomes the coming mask, in the last one's place: after the
    /// update, which still looks at that.
    virtual void decode_mask(std::span<const MaskCode::Part> all) = 0;
    /// The coming mask becomes S_t, and S_t the last.
    virtual void advance_mask() = 0;

    /// Section 4.4: the mean in rank order of `ranks` parts of `count` values in received(), into the
    /// moment's buffer at `at`.
    virtual void fold(const Scalars& scalars, int ranks, Index at, Index count) = 0;
    /// The same where the parts have been added already (`native`): the division.
    virtual void divide(const Scalars& scalars, Index at, Index count) = 0;

    /// Sections 4.5 and 4.7: ghat, and clipped unless clip_norm is 0.
    virtual void reconstruct(const Scalars& scalars, double clip_norm) = 0;

    /// What there is to say at the end of a step.
    struct Verdict {
        bool finite = true; ///< M and w
        Index kept = 0;     ///< coordinates of S_t that the last mask had too
        double norm = 0.0;  ///< of ghat before clipping; 0 where clipping is off
        float clip_factor = 1.0F;
    };
    /// Section 4.8, and m = M.
    [[nodiscard]] virtual Verdict update(problem::BiasCorrection correction, const Scalars& scalars) = 0;

    /// A step has failed, or its parts are given up: nothing that was started reads the gradient any more,
    /// which is the caller's again.
    virtual void settle() noexcept {}

    // What the communicator moves. Valid until the next call above.
    [[nodiscard]] virtual float* payload() = 0;
    [[nodiscard]] virtual const void* sent() { return payload(); } ///< the payload as it travels
    [[nodiscard]] virtual void* received(Index count) = 0; ///< room for `count` values that have travelled
    [[nodiscard]] virtual float* moment() = 0;             ///< M on S_t, in the making
    [[nodiscard]] virtual std::uint8_t* mask_code(std::size_t bytes) = 0;

    // The state, for whoever looks at it, saves it or restores it. Copies, in the host's memory.
    [[nodiscard]] virtual const Mask& current_mask() const = 0; ///< of the last step; m is packed on it
    [[nodiscard]] virtual const Mask& coming_mask() const = 0;
    [[nodiscard]] virtual std::span<const float> parameters() = 0;
    [[nodiscard]] virtual std::span<const float> residual() = 0;
    [[nodiscard]] virtual std::span<const float> packed_moment() = 0;
    /// `coming` is ignored before the first step.
    virtual void restore(std::span<const float> parameters, std::span<const float> residual,
                         std::span<const float> packed_moment, const Mask& current, const Mask& coming) = 0;
};

} // namespace truestep::distributed::scape
