#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/problem/mapl/settings.hpp>

namespace truestep::abi {

/// The arithmetic of a boundary, in one of its two forms. The functions are those of
/// truestep/distributed/mapl/passes.hpp, truestep/distributed/mapl/codec.hpp and
/// truestep/distributed/mapl/spel_step.hpp; no form checks anything.
class MaplForm {
  public:
    using Side = distributed::mapl::SideMatrices;
    using Ids = std::span<const distributed::mapl::Id>;

    virtual ~MaplForm() = default;
    virtual void compress(const Side& side, Ids ids, const float* x, float* q, float* z) const = 0;
    virtual void compress_gradient(const Side& side, std::size_t tokens, const float* g,
                                   float* dz) const = 0;
    /// What of Z or dZ travels in 16 bits, of finite values.
    virtual void round_to_bf16(std::span<float> values) const = 0;
    /// Indices of codewords for Z; `learned` goes on.
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
    /// False, and nothing changed, if anything that it would make is not finite.
    virtual bool step(const problem::mapl::Settings& settings, std::span<const float> gradient, double rate,
                      distributed::mapl::Floats& a, distributed::mapl::Floats& m) const = 0;
};

/// distributed/mapl's, and reference/mapl's.
[[nodiscard]] const MaplForm& optimized_mapl();
[[nodiscard]] const MaplForm& reference_mapl();

} // namespace truestep::abi
