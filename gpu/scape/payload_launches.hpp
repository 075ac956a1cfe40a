#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <truestep/problem/problem.hpp>

#include "algorithms/exchanged_values.hpp"

namespace truestep::gpu::scape {

/// How a problem's payloads travel, and with what scale.
class PayloadCoding {
  public:
    explicit PayloadCoding(problem::Payload payload)
        : value_bytes_(static_cast<Index>(problem::value_bytes(payload))) {
        const problem::Payload format = problem::format_of(payload);
        if (format != problem::Payload::fp32)
            coding_.format = format == problem::Payload::bf16 ? Format::bf16 : Format::e5m2;
    }

    [[nodiscard]] bool rounds() const { return coding_.format != Format::fp32; }
    [[nodiscard]] const Coding& coding() const { return coding_; }
    /// Sets the scale of e5m2; the exponent is as fp32 stores it.
    void scale(int exponent) { coding_.scale = distributed::element::e5m2_scale(exponent); }

    [[nodiscard]] Index bytes(Index count) const { return count * value_bytes_; }
    /// The number of floats that have room for `count` values.
    [[nodiscard]] Index floats(Index count) const {
        constexpr Index of_float = sizeof(float);
        return (bytes(count) + of_float - 1) / of_float;
    }

  private:
    Coding coding_{Format::fp32, {}};
    Index value_bytes_;
};

[[nodiscard]] constexpr Index tiles_of(Index count) {
    return (count + tile - 1) / tile;
}
[[nodiscard]] inline Index tiles_over(const problem::Range& range) {
    return range.size() == 0 ? 0 : tiles_of(range.end) - range.begin / tile;
}

/// The launches around an exchange of values: what is sent, what was received, and what stays in
/// the residual.
template <class Machine>
class PayloadLaunches {
  public:
    using Bytes = typename Machine::template Vector<std::uint8_t>;

    /// The machine has to outlive this.
    PayloadLaunches(Machine& machine, problem::Payload payload) : machine_(machine), coding_(payload) {
        machine_.exchange(sent_);
    }

    [[nodiscard]] bool rounds() const { return coding_.rounds(); }
    [[nodiscard]] Index floats(Index count) const { return coding_.floats(count); }
    void scale(int exponent) { coding_.scale(exponent); }

    /// The payload as it travels, if it is rounded; then the means.
    [[nodiscard]] Bytes& sent() { return sent_; }

    /// Where vectors packed on S_t are, and their residual.
    struct State {
        Index size; ///< of all coordinates
        MaskView current;
        float* payload; ///< then M
        float* e;
    };

    void round(const State& state, Index selected) {
        machine_.resize(sent_, coding_.bytes(selected));
        machine_.template run<RoundPayload>(
            tiles_of(state.size),
            {coding_.coding(), state.size, state.current, state.payload, sent_.data(), state.e});
    }

    void make_room(Bytes& sent, Index count) { machine_.resize(sent, coding_.bytes(count)); }
    /// Writes `count` values as they travel from place `at` on; the values stay unchanged.
    void write(Bytes& sent, const float* values, Index at, Index count) {
        machine_.template run<WriteRounded>(
            tiles_of(count), {coding_.coding(), count, values + at, sent.data() + coding_.bytes(at)});
    }

    void fold(const Scalars& scalars, int ranks, Index count, const float* received, float* means) {
        if (rounds())
            machine_.template run<FoldTravelled>(
                tiles_of(count), {scalars.workers, ranks, count, {coding_.coding(), received, 0}, means});
        else
            add(scalars, ranks, count, received, means);
    }
    /// Folds fp32 values, whatever the payload is.
    void add(const Scalars& scalars, int parts, Index count, const float* values, float* means) {
        machine_.template run<Fold>(tiles_of(count), {scalars.workers, parts, count, values, means});
    }

    /// Puts means of the coordinates `where`, which begin with the value `first`, to their places
    /// in M.
    void place(const State& state, problem::Range where, Index first, const float* means) {
        take(state, {Format::fp32, {}}, {}, {}, where, first, means, nullptr);
    }
    /// The same for rounded means; what rounding took of this rank's `own`, which it `made`, goes
    /// to e.
    void take(const State& state, const Scalars& scalars, problem::Range own, problem::Range where,
              Index first, const Bytes& came, const float* made) {
        take(state, coding_.coding(), scalars, own, where, first, came.data(), made);
    }

  private:
    void take(const State& state, const Coding& coding, const Scalars& scalars, problem::Range own,
              problem::Range where, Index first, const void* came, const float* made) {
        machine_.template run<TakeMeans>(
            tiles_over(where), {coding, state.size, where.begin, where.end, first, own.begin, own.end,
                                scalars.workers, state.current, came, made, state.payload, state.e});
    }

    Machine& machine_;
    PayloadCoding coding_;
    Bytes sent_;
};

} // namespace truestep::gpu::scape
