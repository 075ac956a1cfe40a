// Rounds MAPL's payloads to bf16 where the settings ask for it, and unpacks received ones.
#include "payload.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

namespace truestep::distributed::mapl {

namespace {

/// Rounds a finite number to the nearest bf16, ties to even. Values beyond the greatest become
/// infinite.
std::uint16_t nearest_bf16_bits(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float of_bf16_bits(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

} // namespace

bool round_to_payload(Payload payload, std::span<float> values) {
    if (!all_finite(values))
        return false;
    if (payload == Payload::fp32)
        return true;
    for (float& value : values)
        value = of_bf16_bits(nearest_bf16_bits(value));
    return all_finite(values);
}

OutgoingPayload::OutgoingPayload(Payload payload, std::size_t count, std::size_t bytes)
    : count_(count), message_(std::make_shared<Floats>(bytes / sizeof(float) + 1)),
      wide_(payload == Payload::fp32 ? 0 : count) {}

bool OutgoingPayload::pack() {
    if (wide_.empty())
        return all_finite({message_->data(), count_});
    if (!round_to_payload(Payload::bf16, wide_))
        return false;
    std::byte* to = bytes();
    for (const float value : wide_) {
        const auto upper = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16U);
        std::memcpy(to, &upper, sizeof upper);
        to += sizeof upper;
    }
    return true;
}

const float* unpacked(Payload payload, const std::byte* message, std::size_t count, Floats& room) {
    if (payload == Payload::fp32)
        return reinterpret_cast<const float*>(message);
    room.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t upper = 0;
        std::memcpy(&upper, message + i * sizeof upper, sizeof upper);
        room[i] = of_bf16_bits(upper);
    }
    return room.data();
}

} // namespace truestep::distributed::mapl
