// One rank of SCAPE: its steps, outcomes and state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/levels.hpp>
#include <truestep/distributed/scape/backend.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>

namespace truestep::distributed::scape {

/// How the mean on the mask is computed.
enum class Reduction {
    ordered, ///< values travel to the owner, which adds them in rank order: EXACT with any communicator
    native,  ///< the communicator's own reduce-scatter: REL
};

[[nodiscard]] std::string_view name(Reduction reduction);
/// The level to which a reduction is held: "exact" or "rel".
[[nodiscard]] std::string_view level(Reduction reduction);
[[nodiscard]] Reduction parse_reduction(std::string_view text);

/// A step that was refused on all ranks (section 4.1): no state has changed, and the next good step
/// works.
class RefusedStep : public std::runtime_error {
  public:
    RefusedStep(int on_rank, Index at_index, float refused, const problem::Layout& layout);
    /// The refusal of a c that bf16 cannot hold (section 21).
    [[nodiscard]] static RefusedStep of_payload(int on_rank, Index at_index, float refused,
                                                const problem::Layout& layout);

    int rank;
    Index index;
    float value;

  private:
    RefusedStep(int on_rank, Index at_index, float refused, const std::string& told);
};

/// M or a parameter has turned non-finite: no further step until a state is restored.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

/// The statistics of the last step, on this rank.
struct Statistics {
    Index step = 0;
    Index selected = 0;         ///< coordinates of its mask
    Index kept = 0;             ///< those that the mask before also had
    Bytes sent{};               ///< to other ranks, by kind
    double gradient_norm = 0.0; ///< of ghat before clipping; 0 where clipping is off
    float clip_factor = 1.0F;
    int exponent = 0; ///< for a payload of e5m2: E of section 21
};

/// The state that a rank saves (section 7). m is packed on `current`.
struct RankState {
    Index step = 0;
    std::vector<float> parameters;
    std::vector<float> residual;
    std::vector<float> packed_moment;
    Mask current;
    Mask coming;
    /// For a payload of e5m2: the greatest exponent of this rank's c on `current`; or, if all of
    /// that is below 2^-126, the E of the step's scale, less `kept`. So the greatest of all ranks
    /// gives E of the next step, whichever ranks continue.
    int exponent = least_exponent;

    static constexpr int least_exponent = -126;
    static constexpr int greatest_exponent = 127;
    static constexpr int kept = 256;
    [[nodiscard]] static constexpr bool is_exponent(int value) {
        const int E = value < least_exponent ? value + kept : value;
        return E >= least_exponent && E <= greatest_exponent;
    }
};

/// Digests of the parts of a restored state that must be the same on all ranks: parameters, step,
/// moment, mask, coming mask. All 0: none was restored.
using RestoredDigests = std::array<std::uint64_t, 5>;

class BucketsUnderWay;
class GroupFold;

/// One rank of SCAPE (section 4), over any backend and any communicator. All ranks call the same functions
/// in the same order.
class Scape {
  public:
    struct Options {
        Reduction reduction = Reduction::ordered;
        /// The number of values from each rank that SCAPE folds together for `ordered`. 0: a number
        /// that suits the model. Changes no bit; the same on all ranks.
        Index largest_piece = 0;
    };

    /// Throws truestep::Error on all ranks if they got different problems. The communicator has to
    /// outlive this object.
    Scape(problem::Problem problem, std::vector<problem::Range> ranges, problem::DensitySchedule density,
          std::unique_ptr<Backend> backend, Communicator& communicator, Options options);
    ~Scape();
    Scape(const Scape&) = delete;
    Scape& operator=(const Scape&) = delete;

    /// Takes a step with this rank's gradient, which lies where the backend computes. On return the
    /// mask of the next step is still on its way; call progress() during long computations in
    /// between. Throws RefusedStep, Halted or Aborted, on all ranks.
    void step(std::span<const float> gradient, double learning_rate);

    /// Takes a step that consumes the gradient: it need not be read twice, and afterwards the
    /// vector has other memory of the same size, with meaningless values. They are also meaningless
    /// after a refused step, which leaves the state unchanged. All ranks take a step this way, or
    /// none.
    void step_using_up(AlignedFloats& gradient, double learning_rate);

    // Section 20: the gradient of a step may come in parts. The state does not change before the
    // step itself, and a caller that refuses the step, or ends it with an error, loses the parts.

    /// Micro-batches: the gradients given here, in this order, and that of the step are added up.
    /// Communicates nothing; ranks may have different numbers of parts.
    void accumulate(std::span<const float> gradient);
    /// Takes the step with the accumulated parts only.
    void step(double learning_rate);
    /// Buckets: the values of these tensors in `gradient`, which is the last part in full length,
    /// are ready, and their exchange may start; other values are not read. All ranks give the same
    /// buckets in the same order, every tensor once, and then the step with the same gradient; else
    /// truestep::Error on all ranks. These values must not change until the step, or
    /// forget_parts(), returns: a device may still read them. Other buckets at another step change
    /// no bit.
    void bucket(std::span<const std::size_t> tensors, std::span<const float> gradient);
    /// Whether the next step has to come with the gradient of the buckets given since the last one.
    [[nodiscard]] bool in_buckets() const;
    /// Drops the parts given since the last step. With buckets, all ranks call it.
    void forget_parts();

    /// Replaces a step on a rank that cannot take it, for example because its gradient has a wrong
    /// size: nothing changes, and the step of the others, which would wait for this rank, ends with
    /// a truestep::Error that names it. Throws what a step throws.
    void refuse_step(const std::string& fault);

    void progress() { communicator_.progress(); }

    [[nodiscard]] const problem::Problem& problem() const { return problem_; }
    [[nodiscard]] const std::vector<problem::Range>& ranges() const { return ranges_; }
    [[nodiscard]] const problem::DensitySchedule& density() const { return density_; }
    [[nodiscard]] Index steps() const { return steps_; }
    [[nodiscard]] const Statistics& statistics() const { return statistics_; }
    [[nodiscard]] std::span<const float> parameters() { return backend_->parameters(); }
    [[nodiscard]] std::span<const float> residual() { return backend_->residual(); }
    [[nodiscard]] std::vector<float> moment();                                  ///< in full length
    [[nodiscard]] const Mask& mask() const { return backend_->current_mask(); } ///< of the last step
    [[nodiscard]] const Mask& coming_mask();                                    ///< waits for it

    /// For a payload of e5m2: the exponent of RankState.
    [[nodiscard]] int exponent() const;

    /// Waits for the coming mask. Throws Halted if there is no state to save, and truestep::Error
    /// in the middle of a step.
    [[nodiscard]] RankState state();
    /// Throws truestep::Error if the state is another model's or not finite.
    void check_restorable(const RankState& state) const;
    /// Continues from a state, after the same checks.
    void restore(const RankState& state);

  private:
    struct Rooms;

    void take(const float* gradient, double learning_rate);
    void attempt(const float* gradient, double learning_rate);
    void attempt_using_up(AlignedFloats& gradient, double learning_rate);
    [[nodiscard]] bool can_use_up() const;
    void finish(const Scalars& scalars);
    void agree(const float* gradient, double learning_rate);
    void agree(Refusal refusal, double learning_rate);
    void expect_parts() const;
    void drop_parts();
    [[nodiscard]] bool payload_is(problem::Payload payload) const {
        return format_of(problem_.settings.payload) == payload;
    }
    void scale_payload(int exponent);
    void round_payload(Index t);
    void bootstrap(const Scalars& scalars, const float* gradient);
    void plan_mask(double density);
    void start_mask();
    void join_mask();
    void advance_mask();
    void exchange(const Scalars& scalars);
    void fold(const Scalars& scalars, Index at);
    [[nodiscard]] Index largest_piece() const;
    [[nodiscard]] Index values_at_once() const;
    [[nodiscard]] std::vector<Index> selected_by_rank(const Mask& mask) const;
    void sent(Traffic traffic, std::uint64_t bytes_to_others);

    problem::Problem problem_;
    std::vector<problem::Range> ranges_;
    problem::DensitySchedule density_;
    std::unique_ptr<Backend> backend_;
    Capabilities can_;                           ///< the backend's
    std::unique_ptr<LevelsCommunicator> levels_; ///< if the ranks are in groups
    Communicator& communicator_;                 ///< levels_, or the given one
    std::unique_ptr<GroupFold> groups_;          ///< if the ranks are in groups
    Options options_;
    Index steps_ = 0;
    std::string halted_;                       ///< why no step can be taken; else empty
    std::unique_ptr<Rooms> rooms_;             ///< lists that the next step reuses
    std::unique_ptr<Exchange> mask_in_flight_; ///< its bits: the only exchange between two steps
    std::vector<Index> selected_;              ///< coordinates of S_t in each rank's range
    std::vector<Index> coming_selected_;       ///< and of the coming mask
    int claim_ = 0;                            ///< for e5m2: this rank's claim for the next scale
    int scale_ = 0;                            ///< and E of the last payload's scale, as fp32 holds it
    Index parts_ = 0;                          ///< accumulated so far
    RestoredDigests restored_{};               ///< of the state restored since the last step
    std::unique_ptr<BucketsUnderWay> buckets_;
    Statistics statistics_;
};

} // namespace truestep::distributed::scape
