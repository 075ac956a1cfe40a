// Section 21: a payload of bf16, and what stays of it.
#include <bit>
#include <cmath>
#include <limits>

#include <scape/distributed/scape.hpp>

#include "plain_rank.hpp"

namespace scape::planted {

float in_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF'0000U);
}

float PlainRank::travelled(float c) const {
    if (problem_.settings.payload == problem::Payload::fp32)
        return c;
    if (has(Bug::payload_subnormals_flushed) && std::abs(c) < std::numeric_limits<float>::min())
        return std::copysign(0.0F, c);
    if (has(Bug::payload_truncated))
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(c) & 0xFFFF'0000U);
    return in_bf16(c);
}

float PlainRank::rounding_of(float c) const {
    if (problem_.settings.payload == problem::Payload::fp32 || has(Bug::rounding_dropped) ||
        has(Bug::residual_cleared_everywhere))
        return 0.0F;
    return has(Bug::rounding_counted_backwards) ? travelled(c) - c : c - travelled(c);
}

/// Nothing has changed yet; c_ is made anew.
void PlainRank::refuse_what_overflows(const Bits& S) const {
    struct Verdict {
        Index index;
        double value;
    };
    Verdict mine{-1, 0.0};
    for (Index i = d_ - 1; i >= 0; --i)
        if (test(S, i) && !std::isfinite(in_bf16(c_[at(i)])))
            mine = {i, static_cast<double>(c_[at(i)])};
    const auto verdicts = distributed::gather_records(communicator_, mine);
    for (int rank = 0; rank < ranks_; ++rank)
        if (const Verdict& verdict = verdicts[at(rank)]; verdict.index >= 0)
            throw distributed::RefusedStep::of_payload(rank, verdict.index,
                                                       static_cast<float>(verdict.value), problem_.layout);
}

} // namespace scape::planted
