// Checks and gathers the values and masks that a C caller passes, and widens bf16 to fp32.
#include "values.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "outcome.hpp"

namespace truestep::abi {

namespace {

/// A bf16 value is the upper half of its fp32 value.
void widen(const std::byte* halves, std::size_t count, float* to) {
    for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t half = 0;
        std::memcpy(&half, halves + 2 * i, sizeof half);
        to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16U);
    }
}

void copy(const truestep_values& piece, float* to) {
    const auto count = static_cast<std::size_t>(piece.count);
    if (piece.data == nullptr)
        std::fill_n(to, count, 0.0F);
    else if (piece.type == TRUESTEP_BF16)
        widen(static_cast<const std::byte*>(piece.data), count, to);
    else if (piece.data != to) // it may be in place already
        std::copy_n(static_cast<const float*>(piece.data), count, to);
}

void copy_all(std::span<const truestep_values> pieces, float* to) {
    for (const truestep_values& piece : pieces) {
        copy(piece, to);
        to += piece.count;
    }
}

void check_piece(const truestep_values& piece, const std::string& what, std::size_t at) {
    const std::string where = what + ", piece " + std::to_string(at);
    if (piece.type != TRUESTEP_F32 && piece.type != TRUESTEP_BF16)
        throw Error(where + ": its type is " + std::to_string(piece.type) +
                    "; give TRUESTEP_F32 (0) or TRUESTEP_BF16 (1)");
    if (piece.count < 0)
        throw Error(where + ": its count is " + std::to_string(piece.count) + "; it must be at least 0");
}

void check_pieces(std::span<const truestep_values> pieces, std::int64_t size, const std::string& what,
                  const char* whole) {
    std::int64_t given = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
        check_piece(pieces[i], what, i);
        if (pieces[i].count > size - given)
            throw Error(what + ": it has more than " + std::to_string(size) + " values, the " + whole);
        given += pieces[i].count;
    }
    if (given != size)
        throw Error(what + ": it has " + std::to_string(given) + " values; there are " +
                    std::to_string(size) + " " + whole);
}

} // namespace

std::span<const truestep_values> pieces(const truestep_values* first, std::size_t count, const char* name) {
    if (count > 0)
        need(first, name);
    return {first, count};
}

std::span<const float> floats(std::span<const truestep_values> pieces, std::int64_t size,
                              std::vector<float>& room, const std::string& what, const char* whole) {
    check_pieces(pieces, size, what, whole);
    if (pieces.size() == 1 && pieces[0].type == TRUESTEP_F32 && pieces[0].data != nullptr)
        return {static_cast<const float*>(pieces[0].data), static_cast<std::size_t>(size)};
    room.resize(static_cast<std::size_t>(size));
    copy_all(pieces, room.data());
    return room;
}

void gather(std::span<const truestep_values> pieces, std::span<float> room, const std::string& what) {
    check_pieces(pieces, static_cast<std::int64_t>(room.size()), what, "parameters of the model");
    copy_all(pieces, room.data());
}

std::span<const std::uint8_t> bits(const truestep_values& values, std::int64_t size,
                                   const std::string& what) {
    const std::int64_t bytes = (size + 7) / 8;
    if (values.type != TRUESTEP_BITS || values.count != bytes || values.data == nullptr)
        throw Error(what + ": give TRUESTEP_BITS, " + std::to_string(bytes) + " bytes for " +
                    std::to_string(size) + " coordinates");
    const std::span<const std::uint8_t> all(static_cast<const std::uint8_t*>(values.data),
                                            static_cast<std::size_t>(bytes));
    if (size % 8 != 0 && (all.back() >> static_cast<unsigned>(size % 8)) != 0)
        throw Error(what + ": a bit is set beyond the last coordinate; clear it");
    return all;
}

void check_rate(double learning_rate) {
    if (!std::isfinite(learning_rate))
        throw Error("learning rate is " + shortest(learning_rate) + "; it must be finite");
}

truestep_values view(std::span<const float> values) {
    return {values.data(), static_cast<std::int64_t>(values.size()), TRUESTEP_F32};
}

truestep_values view(std::span<const std::uint8_t> bytes) {
    return {bytes.data(), static_cast<std::int64_t>(bytes.size()), TRUESTEP_BITS};
}

} // namespace truestep::abi
