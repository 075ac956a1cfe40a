#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::abi {

/// The arithmetic of a boundary, in one of its two forms. The functions are those of
/// truestep/distributed/mapl/passes.hpp, codec.hpp and spel_step.hpp in the same folder. Neither
/// form checks anything.
class MaplForm {
  public:
    using Side = distributed::mapl::SideMatrices;
    using Ids = std::span<const distributed::mapl::Id>;

    virtual ~MaplForm() = default;
    virtual void compress(const Side& side, Ids ids, const float* x, float* q, float* z) const = 0;
    virtual void compress_gradient(const Side& side, std::size_t tokens, const float* g,
                                   float* dz) const = 0;
    /// Rounds finite values of Z or dZ to those that travel in 16 bits.
    virtual void round_to_bf16(std::span<float> values) const = 0;
    /// Encodes Z as indices of codewords, and updates `learned`.
    virtual std::vector<problem::mapl::Word> encode(const problem::mapl::Settings& settings,
                                                    std::span<const float> z,
                                                    std::span<const float> codebooks,
                                                    std::span<float> learned) const = 0;
    virtual void decode(const problem::mapl::Settings& settings,
                        std::span<const problem::mapl::Word> indices, std::span<const float> codebooks,
                        float* z) const = 0;
    virtual void decompress(const Side& side, Ids ids, const float* z, float* xhat) const = 0;
    virtual void decompress_gradient(const Side& side, std::size_t tokens, const float* dz,
                                     float* dx) const = 0;
    virtual void add_senders(const Side& side, Ids ids, const float* q, const float* dz, const float* dx,
                             float* part, float* anchor_gradient) const = 0;
    virtual void add_receivers(const Side& side, Ids ids, const float* z, const float* g, float* part,
                               float* anchor_gradient) const = 0;
    /// Returns false, and changes nothing, if a result would not be finite.
    virtual bool step(const problem::mapl::Settings& settings, std::span<const float> gradient, double rate,
                      distributed::mapl::Floats& a, distributed::mapl::Floats& m) const = 0;
};

/// The forms of distributed/mapl and of reference/mapl.
[[nodiscard]] const MaplForm& optimized_mapl();
[[nodiscard]] const MaplForm& reference_mapl();

} // namespace truestep::abi
