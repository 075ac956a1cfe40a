// Section 21: a payload of bf16 or e5m2, and what stays of it.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include <truestep/distributed/scape/scape.hpp>

#include "plain_rank.hpp"

namespace truestep::properties::scape::planted {

float in_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::bit_cast<float>((bits + 0x7FFFU + ((bits >> 16U) & 1U)) & 0xFFFF'0000U);
}

float in_e5m2(float value, int E, double greatest) {
    if (!std::isfinite(value))
        return value;
    const double scaled = std::ldexp(static_cast<double>(value), 15 - E);
    const double magnitude = std::abs(scaled);
    const double step = magnitude < 0x1p-14 ? 0x1p-16 : std::ldexp(1.0, std::ilogb(magnitude) - 2);
    const double rounded = std::min(std::rint(magnitude / step) * step, greatest);
    return static_cast<float>(std::copysign(std::ldexp(rounded, E - 15), scaled));
}

std::uint8_t byte_of(float value, int E) {
    const double magnitude = std::ldexp(std::abs(static_cast<double>(value)), 15 - E);
    int bits = 0;
    if (!(magnitude < 0x1p16))
        bits = 0x7c;
    else if (magnitude < 0x1p-14)
        bits = static_cast<int>(magnitude * 0x1p16);
    else {
        const int exponent = std::ilogb(magnitude);
        bits = (exponent + 15) * 4 + static_cast<int>(std::ldexp(magnitude, 2 - exponent)) - 4;
    }
    return static_cast<std::uint8_t>(bits + (std::signbit(value) ? 0x80 : 0));
}

float of_byte(std::uint8_t byte, int E) {
    const int bits = byte % 0x80;
    double magnitude = bits < 4 ? bits * 0x1p-16 : std::ldexp(4 + bits % 4, bits / 4 - 17);
    if (bits >= 0x7c)
        magnitude = HUGE_VAL;
    return static_cast<float>(std::copysign(std::ldexp(magnitude, E - 15), byte >= 0x80 ? -1.0 : 1.0));
}

/// E follows from what all ranks sent in the step before; in the first step, from what they are about to
/// send. Values below 2^-126 do not count: if no rank had more, E_ stays.
void PlainRank::agree_on_scale(Index t) {
    if (!scaled())
        return;
    int own = nothing_sent;
    int everywhere = own;
    for (Index i = 0; i < d_; ++i) {
        const float c = c_[at(i)];
        const int exponent = std::abs(c) < 0x1p-126F ? nothing_sent : std::min(std::ilogb(c), 127);
        everywhere = std::max(everywhere, exponent);
        if (test(mask_, i))
            own = std::max(own, exponent);
    }
    const bool first = t == 1 || has(Bug::scale_of_this_step) || !last_exponent_;
    const auto all = distributed::gather_records(communicator_, first ? own : *last_exponent_);
    const int greatest = has(Bug::scale_not_shared) ? all[at(me_)] : *std::ranges::max_element(all);
    if (greatest != nothing_sent)
        E_ = greatest;
    else if (first || has(Bug::scale_lost_to_zeros))
        E_ = -126;
    if (asked_ <= exponents_.size())
        E_ = exponents_[asked_ - 1];
    last_exponent_ = has(Bug::scale_of_all_segments) ? everywhere : own;
}

float PlainRank::travelled(float c) const {
    if (format() == problem::Payload::fp32)
        return c;
    if (scaled()) {
        const double magnitude = std::ldexp(std::abs(static_cast<double>(c)), 15 - E_);
        if (has(Bug::payload_subnormals_flushed) && magnitude < 0x1p-14)
            return std::copysign(0.0F, c);
        if (has(Bug::overflow_to_infinity)) {
            const float rounded = in_e5m2(c, E_, HUGE_VAL);
            return std::abs(std::ldexp(static_cast<double>(rounded), 15 - E_)) > 57344.0
                       ? std::copysign(INFINITY, c)
                       : rounded;
        }
        const float p = in_e5m2(c, E_);
        // Towards 0: one number nearer if rounding went away from it.
        if (has(Bug::payload_truncated) && std::abs(p) > std::abs(c))
            return of_byte(static_cast<std::uint8_t>(byte_of(p, E_) - 1), E_);
        return p;
    }
    if (has(Bug::payload_subnormals_flushed) && std::abs(c) < std::numeric_limits<float>::min())
        return std::copysign(0.0F, c);
    if (has(Bug::payload_truncated))
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(c) & 0xFFFF'0000U);
    return in_bf16(c);
}

float PlainRank::rounding_of(float c) const {
    if (format() == problem::Payload::fp32 || has(Bug::rounding_dropped) ||
        has(Bug::residual_cleared_everywhere))
        return 0.0F;
    if (has(Bug::excess_dropped) && scaled() &&
        std::abs(std::ldexp(static_cast<double>(c), 15 - E_)) > 57344.0)
        return 0.0F;
    return has(Bug::rounding_counted_backwards) ? travelled(c) - c : c - travelled(c);
}

float PlainRank::staying(Index i) const {
    const float rounding = rounding_of(c_[at(i)]);
    return rounds_mean(problem_.settings.payload) ? rounding + lost_[at(i)] : rounding;
}

/// The mean as it is sent. What that takes is kept.
float PlainRank::rounded_mean(Index i, float mean) {
    const float M = travelled(mean);
    const float P = has(Bug::owner_loss_not_times_ranks) ? 1.0F : static_cast<float>(ranks_);
    lost_[at(i)] = has(Bug::owner_loss_dropped) ? 0.0F : (mean - M) * P;
    own_means_[at(i)] = mean;
    return M;
}

/// Rounds the means of this rank's range on a mask.
void PlainRank::round_own_means(const Bits& mask, Floats& means) {
    if (!rounds_mean(problem_.settings.payload) || has(Bug::mean_rounded_by_all))
        return;
    std::size_t j = 0;
    for (Index i = ranges_[at(me_)].begin; i < ranges_[at(me_)].end; ++i)
        if (test(mask, i)) {
            means[j] = rounded_mean(i, means[j]);
            ++j;
        }
}

/// The size of a mean on its way back.
std::size_t PlainRank::bytes_of_a_mean() const {
    return has(Bug::mean_rounded_by_all) ? sizeof(float) : mean_bytes(problem_.settings.payload);
}

/// The bytes of payloads: in bf16 the upper half of each float, in E5M2 its byte.
std::vector<char> PlainRank::narrow(const Floats& values, std::size_t bytes) const {
    const std::size_t skipped = sizeof(float) - bytes; // the lower half comes first
    std::vector<char> sent(values.size() * bytes);
    for (std::size_t i = 0; i < values.size(); ++i)
        if (bytes == 1)
            sent[i] = std::bit_cast<char>(byte_of(values[i], E_));
        else
            std::memcpy(sent.data() + i * bytes, reinterpret_cast<const char*>(&values[i]) + skipped,
                        bytes);
    return sent;
}

Floats PlainRank::wide(const std::vector<char>& sent, std::size_t bytes) const {
    const std::size_t skipped = sizeof(float) - bytes;
    Floats values(sent.size() / bytes, 0.0F);
    for (std::size_t i = 0; i < values.size(); ++i)
        if (bytes == 1)
            values[i] = of_byte(std::bit_cast<std::uint8_t>(sent[i]), E_);
        else
            std::memcpy(reinterpret_cast<char*>(&values[i]) + skipped, sent.data() + i * bytes, bytes);
    return values;
}

/// Throws if a payload would overflow. Nothing has changed yet, since c_ is made anew.
void PlainRank::refuse_what_overflows(const Bits& S) {
    if (has(Bug::overflow_not_refused))
        return;
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
        if (const Verdict& verdict = verdicts[at(rank)]; verdict.index >= 0) {
            parts_.clear();
            cut_.clear();
            throw distributed::scape::RefusedStep::of_payload(
                rank, verdict.index, static_cast<float>(verdict.value), problem_.layout);
        }
}

} // namespace truestep::properties::scape::planted
