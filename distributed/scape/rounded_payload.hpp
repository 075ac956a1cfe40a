#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <truestep/distributed/kernels.hpp>
#include <truestep/problem/problem.hpp>

#include "reusable_buffer.hpp"

namespace truestep::distributed::scape {

/// Makes room; the contents may be lost. A large room is freed after the density has fallen.
template <class Vector>
void make_room(Vector& vector, Index count) {
    const auto wanted = static_cast<std::size_t>(count);
    if (vector.capacity() < wanted || vector.capacity() / 2 > wanted)
        vector = Vector(); // {} would keep the memory
    vector.resize(wanted);
}

/// The coordinate of the value at `place`, counted among the mask's coordinates from `begin` on.
[[nodiscard]] inline Index coordinate(const Mask& mask, Index begin, Index place) {
    for (;; ++begin)
        if (mask.test(begin) && place-- == 0)
            return begin;
}

/// A payload in the format that travels, in the host's memory, if that is not fp32 (section 21):
/// the step's, those of its buckets, and the received ones. Counts and places are of values.
class RoundedPayload {
  public:
    using Bytes = ReusableBuffer<std::vector<std::byte>>;

    explicit RoundedPayload(problem::Payload kind) : kind_(format_of(kind)) {}

    [[nodiscard]] bool any() const { return kind_ != problem::Payload::fp32; }
    /// Sets the scale of e5m2; the exponent is as fp32 holds it.
    void scale(int exponent) { scale_ = element::e5m2_scale(exponent); }

    void make_room(Index count) { sent_.make(in_bytes(count)); }
    void make_room(std::size_t bucket, Index count) {
        if (of_buckets_.size() <= bucket)
            of_buckets_.resize(bucket + 1);
        of_buckets_[bucket].make(in_bytes(count));
    }
    void end_step() {
        sent_.end_step();
        for (auto& room : of_buckets_)
            room.end_step();
        for (auto& room : received_)
            room.end_step();
    }

    /// Rounds c in place, and writes it in the format that travels from the value `at` on; `lost`
    /// receives the errors.
    void round(Index count, float* c, Index at, float* lost) { round(sent_, count, c, at, lost); }
    [[nodiscard]] Bytes& sent() { return sent_; }
    [[nodiscard]] Bytes& sent(std::size_t bucket) { return of_buckets_[bucket]; }
    /// Writes values in the format that travels, from the value `at` on.
    void write(Bytes& sent, Index count, const float* values, Index at) const {
        std::array<float, Mask::chunk> rounded; // NOLINT: written before it is read
        std::array<float, Mask::chunk> lost;    // NOLINT: never read
        for (Index begin = 0; begin < count; begin += Mask::chunk) {
            const Index size = std::min(Mask::chunk, count - begin);
            std::copy_n(values + begin, size, rounded.data());
            round(sent, size, rounded.data(), at + begin, lost.data());
        }
    }
    /// Reads values from the format that travels.
    void read(const Bytes& sent, Index begin, Index count, float* values) const {
        Scalars alone;
        alone.workers = 1.0F;
        fold(sent.data() + bytes(begin), alone, 1, 0, count, 0, values);
    }

    [[nodiscard]] void* received(std::size_t room, Index count) {
        return received_[room].make(in_bytes(count));
    }
    void fold(std::size_t room, const Scalars& scalars, int ranks, Index begin, Index end, Index stride,
              float* means) const {
        fold(received_[room].data(), scalars, ranks, begin, end, stride, means);
    }

  private:
    void fold(const std::byte* parts, const Scalars& scalars, int ranks, Index begin, Index end,
              Index stride, float* means) const {
        if (kind_ == problem::Payload::bf16)
            host::fold_bf16(scalars, ranks, begin, end, reinterpret_cast<const std::uint16_t*>(parts),
                            stride, means);
        else
            host::fold_e5m2(scalars, scale_, ranks, begin, end,
                            reinterpret_cast<const std::uint8_t*>(parts), stride, means);
    }

    [[nodiscard]] std::size_t bytes(Index count) const {
        return static_cast<std::size_t>(count) * value_bytes(kind_);
    }

    [[nodiscard]] Index in_bytes(Index count) const { return static_cast<Index>(bytes(count)); }

    void round(Bytes& sent, Index count, float* c, Index at, float* lost) const {
        std::byte* bits = sent.data() + bytes(at);
        if (kind_ == problem::Payload::bf16)
            host::to_bf16(0, count, c, reinterpret_cast<std::uint16_t*>(bits), lost);
        else
            host::to_e5m2(scale_, 0, count, c, reinterpret_cast<std::uint8_t*>(bits), lost);
    }

    problem::Payload kind_;
    element::E5m2Scale scale_{};
    Bytes sent_;
    std::vector<Bytes> of_buckets_;
    std::array<Bytes, 2> received_;
};

} // namespace truestep::distributed::scape
