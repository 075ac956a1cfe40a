// The interface of a backend of SCAPE, on the host or a device.
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
    Index index = 0; ///< d if nothing is refused
    float value = 0.0F;
};

/// Steps that consume the gradient (section 20).
class ConsumedGradients {
  public:
    virtual ~ConsumedGradients() = default;

    /// first_refused() and local_pass() in one, with the residual in the gradient's memory. The
    /// state does not change; but the input of select() and later calls does, until one of the two
    /// functions below.
    [[nodiscard]] virtual Refusal local_pass_over(const Scalars& scalars, std::span<float> gradient) = 0;
    /// All ranks accept: the residual in the gradient's memory becomes e, whose old memory the
    /// caller gets.
    virtual void keep(AlignedFloats& gradient) = 0;
    /// The step was refused, or ended: S_t is the coming mask again, and the last one S_t.
    virtual void roll_back() = 0;
};

/// A step in parts (section 20). Nothing here changes the state.
class GradientParts {
  public:
    virtual ~GradientParts() = default;

    /// Adds a part of the gradient to those before it, or sets the first.
    virtual void accumulate(const float* gradient, bool first) = 0;
    [[nodiscard]] virtual const float* accumulated() = 0; ///< their sum
    /// c on the coming mask, packed, for the coordinates of one bucket, which ascend. If it is
    /// `added` to earlier parts, `gradient` is the last one. Returns its place, valid until the
    /// next step.
    [[nodiscard]] virtual float* gather(std::size_t bucket, const Scalars& scalars, const float* gradient,
                                        bool added, std::span<const problem::Range> where) = 0;
    /// The bucket's values as they travel.
    [[nodiscard]] virtual const void* sent_of(std::size_t bucket) = 0;
    /// fold() in a bucket's place.
    virtual void fold_in(std::size_t bucket, const Scalars& scalars, int ranks, Index at, Index count) = 0;
    /// Moves a bucket's values to their places in moment(), on S_t.
    virtual void place(std::size_t bucket, std::span<const problem::Range> where) = 0;
    /// Drops received values that have not been folded.
    virtual void forget_received() = 0;
};

/// A rounded payload (section 21), for a backend that was made for such a problem.
class RoundedPayloads {
  public:
    virtual ~RoundedPayloads() = default;

    /// The first coordinate of the coming mask whose c bf16 cannot hold. Changes nothing.
    [[nodiscard]] virtual Refusal first_overflow(const Scalars& scalars, const float* gradient) = 0;
    /// For e5m2, with exponents as fp32 holds them: the first returns the greatest of the payload
    /// before rounding, 0 if all of it is below a normal number; the second sets the scale of all
    /// rounding from now on.
    [[nodiscard]] virtual int payload_exponent() = 0;
    virtual void scale_payload(int exponent) = 0;
    /// Rounds the payload to what travels, and adds the errors to e. Call it after select(), which
    /// scores the unrounded values.
    virtual void round_payload() = 0;
    // For owners that round M, too. `count` means of this rank lie from `at` on in moment(), or in
    // the place of a bucket's values. Returns the buffer for all ranks' rounded means, with the own
    // ones in their places.
    [[nodiscard]] virtual std::byte* round_means(Index at, Index count) = 0;
    [[nodiscard]] virtual std::byte* round_means_in(std::size_t bucket, Index at, Index count) = 0;
    /// Moves all received means to moment(), and adds the rounding errors of this rank's
    /// coordinates `own` to e.
    virtual void take_means(const Scalars& scalars, problem::Range own) = 0;
    virtual void take_means_of(std::size_t bucket, const Scalars& scalars, problem::Range own,
                               std::span<const problem::Range> where) = 0;
};

/// Ranks in groups (section 32).
class GroupSums {
  public:
    virtual ~GroupSums() = default;

    /// Room for `count` sums of groups, in fp32, valid until this many more rooms
    /// (Capabilities::rooms) have been handed out.
    [[nodiscard]] virtual float* received_sums(Index count) = 0;
    /// The mean of `groups` parts of `count` values there.
    virtual void fold_sums(const Scalars& scalars, int groups, Index count, const float* sums,
                           float* means) = 0;
};

/// The features of a backend beyond a whole step in fp32 on one level; null where it lacks one.
struct Capabilities {
    ConsumedGradients* consumed = nullptr;
    GradientParts* parts = nullptr;
    RoundedPayloads* rounding = nullptr;
    GroupSums* groups = nullptr;
    /// With a single rank the coming mask need not be coded: decode_mask() takes it as it was made.
    bool codes_for_itself = true;
    /// How many rooms received() hands out in turn before the first has to be folded; fold() uses
    /// the same order.
    int rooms = 1;
};

/// Holds one rank's vectors and computes on them. The step calls the functions in the order of
/// section 4; communication happens between the calls, and never in a backend.
///
/// A backend may compute asynchronously: only functions that return a value have to wait. Within a
/// step the caller never asks it for facts that follow from the problem, such as how much a mask
/// selects.
///
/// Buffers: w and e have d floats. Two masks rotate: `last`, on which m is packed, and `current`,
/// S_t. Three packed buffers rotate: the payload, which becomes M, which becomes m.
class Backend {
  public:
    virtual ~Backend() = default;

    [[nodiscard]] virtual Capabilities capabilities() { return {}; }

    /// Section 4.1: the first refused coordinate of the gradient, which lies where the backend
    /// computes.
    [[nodiscard]] virtual Refusal first_refused(const float* gradient) = 0;

    /// Section 4.2, 4.4, 4.6: c from m, g and e; c on S_t goes to the payload, e = 0 there and c
    /// elsewhere. m is moved to S_t, which frees `last` for the coming mask.
    virtual void local_pass(const Scalars& scalars, const float* gradient) = 0;
    /// Announces what select() will need after the coming local pass, which may search for it on
    /// its way.
    virtual void hint_next_selection(std::span<const MaskCode::Part> /*own*/) {}
    /// At the bootstrap S_1 is made from c_1: the local pass has run with an empty mask, and this
    /// completes it.
    virtual void extract_payload() = 0;

    /// Section 4.3: takes the top k of this rank's segments by |c| and writes their code to
    /// mask_code(), at `at`.
    virtual void select(std::span<const MaskCode::Part> own, std::size_t at) = 0;
    /// Decodes the gathered code of all segments to the coming mask, in the last one's place: only
    /// after the update, which still reads that.
    virtual void decode_mask(std::span<const MaskCode::Part> all) = 0;
    /// The coming mask becomes S_t, and S_t the last.
    virtual void advance_mask() = 0;

    /// Section 4.4: the mean in rank order of `ranks` parts of `count` values in received(), into
    /// the moment's buffer at `at`.
    virtual void fold(const Scalars& scalars, int ranks, Index at, Index count) = 0;
    /// The same for parts that have been added already (`native`): only the division.
    virtual void divide(const Scalars& scalars, Index at, Index count) = 0;

    /// Sections 4.5 and 4.7: ghat, and clipped unless clip_norm is 0.
    virtual void reconstruct(const Scalars& scalars, double clip_norm) = 0;

    /// The results at the end of a step.
    struct Verdict {
        bool finite = true; ///< of M and w
        Index kept = 0;     ///< coordinates of S_t that the last mask also had
        double norm = 0.0;  ///< of ghat before clipping; 0 where clipping is off
        float clip_factor = 1.0F;
    };
    /// Section 4.8, and m = M.
    [[nodiscard]] virtual Verdict update(problem::BiasCorrection correction, const Scalars& scalars) = 0;

    /// A step has failed, or its parts are given up: nothing that was started reads the gradient
    /// any more, so it belongs to the caller again.
    virtual void wait_idle() noexcept {}

    // The communicator's buffers. Valid until the next call above.
    [[nodiscard]] virtual float* payload() = 0;
    [[nodiscard]] virtual const void* sent() { return payload(); } ///< the payload as it travels
    [[nodiscard]] virtual void* received(Index count) = 0; ///< room for `count` values as they travel
    [[nodiscard]] virtual float* moment() = 0;             ///< M on S_t, while it is being made
    [[nodiscard]] virtual std::uint8_t* mask_code(std::size_t bytes) = 0;

    // The state, for callers that read, save or restore it: copies in the host's memory.
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
