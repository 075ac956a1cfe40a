#pragma once

#include <cstddef>
#include <cstdint>

#include <truestep/training/stage_boundary.hpp>

namespace truestep::training {

using Count = std::ptrdiff_t;

/// A shape in the form of the inner loops, with the number of windows.
struct Sizes {
    Count symbols;
    Count context;
    Count width;
    Count layers;
    Count heads;
    Count windows;

    [[nodiscard]] Count rows() const { return windows * context; }
};

/// The passes for one instruction set. `room` has room() values and is aligned to 64 bytes, since
/// an order of sums that depends on an address would change between runs. `between` may be nullptr.
template <class Scalar>
struct Passes {
    std::size_t (*room)(const Sizes&);
    double (*loss)(const Sizes&, const Scalar* parameters, const std::uint8_t* inputs,
                   const std::uint8_t* targets, Scalar* room, StageBoundary<Scalar>* between);
    double (*loss_and_gradient)(const Sizes&, const Scalar* parameters, const std::uint8_t* inputs,
                                const std::uint8_t* targets, Scalar* gradient, Scalar* room,
                                StageBoundary<Scalar>* between);
};

extern const Passes<float> plain_passes;
extern const Passes<float> avx2_passes;
extern const Passes<float> avx512_passes;
extern const Passes<double> double_passes;

} // namespace truestep::training
