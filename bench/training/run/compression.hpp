#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace truestep::training {

/// How the boundaries between stages get their A.
enum class Subspace : std::uint8_t {
    fixed, ///< drawn, and never changed
    free,  ///< a parameter like others, which AdamS trains without knowing of the manifold
    mapl,  ///< SPEL
};

/// The text behind an optimizer's name: "adams+mapl:8", "adams+free:8:0.01".
struct Compression {
    Subspace subspace = Subspace::mapl;
    std::size_t times = 1; ///< D / r
    double rate = 0.1;     ///< learning rate of A, relative to the rest
};

/// The text without its compression.
[[nodiscard]] std::string_view without_compression(std::string_view optimizer);
/// Returns nothing if the text has no compression. Throws truestep::Error, one line, for an invalid
/// one.
[[nodiscard]] std::optional<Compression> compression_of(const std::string& optimizer);

} // namespace truestep::training
