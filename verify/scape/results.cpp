#include <truestep/verify/results.hpp>

#include <cstddef>

namespace truestep::verify {

std::string_view name(Phase phase) {
    constexpr std::array<std::string_view, 8> names{"check",       "local",    "mask", "exchange",
                                                    "reconstruct", "residual", "clip", "update"};
    return names.at(static_cast<std::size_t>(phase));
}

Phase phase_of(Result result, const problem::Problem& problem) {
    switch (result) {
    case Result::local:
        return Phase::local;
    case Result::mask:
    case Result::next_mask:
        return Phase::mask;
    case Result::exchanged:
        return Phase::exchange;
    case Result::reconstructed:
        return Phase::reconstruct;
    case Result::residual:
        return Phase::residual;
    case Result::first_moment:
        return problem.settings.clip_norm > 0.0 ? Phase::clip : Phase::exchange;
    case Result::parameters:
        break;
    }
    return Phase::update;
}

std::vector<std::uint8_t> to_bits(const Coordinates& mask, Index size) {
    std::vector<std::uint8_t> bits(static_cast<std::size_t>((size + 7) / 8), 0);
    for (const Index coordinate : mask) {
        std::uint8_t& byte = bits[static_cast<std::size_t>(coordinate / 8)];
        byte = static_cast<std::uint8_t>(byte | (1U << static_cast<unsigned>(coordinate % 8)));
    }
    return bits;
}

Coordinates to_coordinates(const std::vector<std::uint8_t>& bits, Index size) {
    Coordinates mask;
    for (Index i = 0; i < size; ++i)
        if (((bits[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U) != 0)
            mask.push_back(i);
    return mask;
}

} // namespace truestep::verify
