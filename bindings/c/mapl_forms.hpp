#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <truestep/mapl/passes.hpp>
#include <truestep/mapl/quantization.hpp>
#include <truestep/mapl/settings.hpp>

namespace truestep::abi {

/// The arithmetic of a boundary, in one of its two forms. The functions are those of
/// truestep/mapl/passes.hpp, truestep/mapl/codec.hpp and truestep/mapl/spel_step.hpp; no form checks
/// anything.
class MaplForm {
  public:
    using Side = mapl::SideMatrices;
    using Ids = std::span<const mapl::Id>;

    virtual ~MaplForm() = default;
    virtual void compress(const Side& side, Ids ids, const float* x, float* q, float* z) const = 0;
    virtual void compress_gradient(const Side& side, std::size_t tokens, const float* g,
                                   float* dz) const = 0;
    /// What of Z or dZ travels in 16 bits, of finite values.
    virtual void round_to_bf16(std::span<float> values) const = 0;
    /// Indices of codewords for Z; `learned` goes on.
    virtual std::vector<mapl::Word> encode(const mapl::Settings& settings, std::span<const float> z,
                                           std::span<const float> codebooks,
                                           std::span<float> learned) const = 0;
    virtual void decode(const mapl::Settings& settings, std::span<const mapl::Word> indices,
                        std::span<const float> codebooks, float* z) const = 0;
    virtual void decompress(const Side& side, Ids ids, const float* z, float* xhat) const = 0;
    virtual void decompress_gradient(const Side& side, std::size_t tokens, const float* dz,
                                     float* dx) const = 0;
    virtual void add_senders(const Side& side, Ids ids, const float* q, const float* dz, const float* dx,
                             float* part, float* anchor_gradient) const = 0;
    virtual void add_receivers(const Side& side, Ids ids, const float* z, const float* g, float* part,
                               float* anchor_gradient) const = 0;
    /// False, and nothing changed, if anything that it would make is not finite.
    virtual bool step(const mapl::Settings& settings, std::span<const float> gradient, double rate,
                      mapl::Floats& a, mapl::Floats& m) const = 0;
};

/// distributed/mapl's, and reference/mapl's.
[[nodiscard]] const MaplForm& optimized_mapl();
[[nodiscard]] const MaplForm& reference_mapl();

} // namespace truestep::abi
