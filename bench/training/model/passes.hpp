#pragma once

#include <cstddef>
#include <cstdint>

#include <truestep/training/between.hpp>

namespace truestep::training {

using Count = std::ptrdiff_t;

/// A shape as the inner loops want it, and how many windows there are.
struct Sizes {
    Count symbols;
    Count context;
    Count width;
    Count layers;
    Count heads;
    Count windows;

    [[nodiscard]] Count rows() const { return windows * context; }
};

/// The passes for one set of instructions. `room` is as many values as room() says, at 64 bytes: an order
/// of sums that hung on an address would not be the same in the next run. `between` may be nullptr.
template <class Scalar>
struct Passes {
    std::size_t (*room)(const Sizes&);
    double (*loss)(const Sizes&, const Scalar* parameters, const std::uint8_t* inputs,
                   const std::uint8_t* targets, Scalar* room, Between<Scalar>* between);
    double (*loss_and_gradient)(const Sizes&, const Scalar* parameters, const std::uint8_t* inputs,
                                const std::uint8_t* targets, Scalar* gradient, Scalar* room,
                                Between<Scalar>* between);
};

extern const Passes<float> plain_passes;
extern const Passes<float> avx2_passes;
extern const Passes<float> avx512_passes;
extern const Passes<double> double_passes;

} // namespace truestep::training
