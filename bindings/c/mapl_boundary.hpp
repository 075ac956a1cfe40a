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

/// Both sides of a boundary, by number: TRUESTEP_MAPL_SENDER and TRUESTEP_MAPL_RECEIVER.
struct truestep_mapl_boundary {
    truestep::problem::mapl::Settings settings{};
    const truestep::abi::MaplForm* form = nullptr;
    truestep::problem::mapl::Index steps = 0;
    truestep::distributed::mapl::Floats a{};
    truestep::distributed::mapl::Floats m{};
    std::array<truestep::distributed::mapl::Floats, 2> rows{}; ///< P
    std::array<truestep::distributed::mapl::Floats, 2>
        parts{}; ///< of the gradient of A, of the step that goes on
    std::array<truestep::problem::mapl::Index, 2> batches{}; ///< that have come back in it
    truestep::abi::MaplCodewords codewords{};                ///< which no step ends

    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(settings.width); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings.rank); }
    [[nodiscard]] bool anchored() const {
        return settings.anchors != truestep::problem::mapl::Anchors::none;
    }
};

namespace truestep::abi {

/// TRUESTEP_MAPL_SENDER or TRUESTEP_MAPL_RECEIVER. Throws truestep::Error for what is neither.
[[nodiscard]] std::size_t mapl_side(int32_t side);

/// A micro-batch through one side, as truestep.h has it.
class MaplPass {
  public:
    /// Throws truestep::Error if the ids are none of this boundary's.
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
    /// The same, and all of it finite.
    [[nodiscard]] std::span<const float> finite(const truestep_values* values, std::size_t columns,
                                                Floats& room, const char* what) const;
    [[nodiscard]] std::span<const float> anchor_of(const truestep_values* anchor, Floats& room) const;
    /// Z or dZ that was made of what was given.
    void check_made(const float* made, const char* what, std::span<const float> given, const char* given_as,
                    std::span<const float> anchor = {}) const;
    /// To what of it travels.
    void round_payload(float* made, const char* what) const;
    void check_result(const float* result, std::size_t columns, const char* what,
                      std::span<const float> anchor = {}) const;
    /// A gradient may come back now, and be added to that of the anchor.
    void check_backward(int64_t step, const float* anchor_gradient) const;
    void has_come_back() const { ++boundary_.batches[side_]; }

    truestep_mapl_boundary& boundary_;
    std::size_t side_;
    std::vector<distributed::mapl::Id> ids_;
};

} // namespace truestep::abi
