#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mapl_codewords.hpp"
#include "mapl_forms.hpp"
#include "mapl_settings.hpp"
#include "outcome.hpp"

/// Both sides of a boundary, indexed by TRUESTEP_MAPL_SENDER and TRUESTEP_MAPL_RECEIVER.
struct truestep_mapl_boundary {
    truestep::problem::mapl::Settings settings{};
    const truestep::abi::MaplForm* form = nullptr;
    truestep::problem::mapl::Index steps = 0;
    truestep::distributed::mapl::Floats a{};
    truestep::distributed::mapl::Floats m{};
    std::array<truestep::distributed::mapl::Floats, 2> rows{}; ///< P
    std::array<truestep::distributed::mapl::Floats, 2>
        parts{};                                             ///< of the gradient of A, of the current step
    std::array<truestep::problem::mapl::Index, 2> batches{}; ///< that have come back in it
    truestep::abi::MaplCodewords codewords{};                ///< not affected by the end of a step

    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings.width); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings.rank); }
    [[nodiscard]] bool anchored() const {
        return settings.anchors != truestep::problem::mapl::Anchors::none;
    }
};

namespace truestep::abi {

/// Checks the side. Throws truestep::Error if it is neither TRUESTEP_MAPL_SENDER nor
/// TRUESTEP_MAPL_RECEIVER.
[[nodiscard]] std::size_t mapl_side(int32_t side);

/// Passes a micro-batch through one side, as truestep.h describes.
class MaplPass {
  public:
    /// Throws truestep::Error for ids that do not belong to this boundary.
    MaplPass(truestep_mapl_boundary* boundary, int side, const int64_t* ids, int64_t tokens);

    void compress(const truestep_values* x, const truestep_values* anchor, float* q, float* z) const;
    void decompress(const truestep_values* z, const truestep_values* anchor, float* xhat) const;
    void compress_backward(int64_t step, const truestep_values* q, const truestep_values* dz, float* dx,
                           float* anchor_gradient) const;
    void decompress_backward(int64_t step, const truestep_values* z, const truestep_values* gradient,
                             float* dz, float* anchor_gradient) const;

  private:
    using Floats = distributed::mapl::Floats;

    [[nodiscard]] distributed::mapl::SideMatrices matrices(const float* anchor) const;
    [[nodiscard]] std::span<const float> given(const truestep_values* values, std::size_t columns,
                                               Floats& room, const char* what) const;
    /// The same values, checked to be finite.
    [[nodiscard]] std::span<const float> finite(const truestep_values* values, std::size_t columns,
                                                Floats& room, const char* what) const;
    [[nodiscard]] std::span<const float> anchor_of(const truestep_values* anchor, Floats& room) const;
    /// Checks the Z or dZ that was made from `given`.
    void check_made(const float* made, const char* what, std::span<const float> given, const char* given_as,
                    std::span<const float> anchor = {}) const;
    /// Rounds Z or dZ to the values that travel.
    void round_payload(float* made, const char* what) const;
    void check_result(const float* result, std::size_t columns, const char* what,
                      std::span<const float> anchor = {}) const;
    /// Checks that a gradient may come back now, and be added to the anchor's.
    void check_backward(int64_t step, const float* anchor_gradient) const;
    void has_come_back() const { ++boundary_.batches[side_]; }

    truestep_mapl_boundary& boundary_;
    std::size_t side_;
    std::vector<distributed::mapl::Id> ids_;
};

} // namespace truestep::abi
