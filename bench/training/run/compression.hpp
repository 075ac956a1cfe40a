#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace truestep::training {

/// How A of the boundaries between stages comes about.
enum class Subspace : std::uint8_t {
    fixed, ///< drawn, and never changed
    free,  ///< a parameter like others, which AdamS trains without knowing of the manifold
    mapl,  ///< SPEL
};

/// What stands behind an optimizer's name: "adams+mapl:8", "adams+free:8:0.01".
struct Compression {
    Subspace subspace = Subspace::mapl;
    std::size_t times = 1; ///< D / r
    double rate = 0.1;     ///< of A, beside the learning rate of the rest
};

/// The optimizer's own part of the text, and the rest of it.
[[nodiscard]] std::string_view without_compression(std::string_view optimizer);
/// Nothing, where there is none. Throws truestep::Error, one line, for what is none.
[[nodiscard]] std::optional<Compression> compression_of(const std::string& optimizer);

} // namespace truestep::training
