#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem::mapl {

using problem::Index;

/// What is taken off the activations before they are compressed, and put back afterwards (section 22).
enum class Anchors : std::uint8_t {
    none,   ///< nothing
    fixed,  ///< one table for both sides, which nobody trains
    shared, ///< one table for both sides, trained: its gradient is summed over both
    two,    ///< a table for each side, each trained by its own
};
/// Of projection and momentum in SPEL (section 24).
enum class Order : std::uint8_t { project_first, momentum_first };

/// What a value of Z or dZ travels as (section 23).
enum class Payload : std::uint8_t { fp32, bf16 };

[[nodiscard]] std::string_view name(Anchors anchors);
[[nodiscard]] std::string_view name(Order order);
[[nodiscard]] std::string_view name(Payload payload);
/// All throw truestep::Error that lists the words that would do.
[[nodiscard]] Anchors parse_anchors(std::string_view text);
[[nodiscard]] Order parse_order(std::string_view text);
[[nodiscard]] Payload parse_payload(std::string_view text);

/// Of Z, where it travels as indices of codewords (section 23.1).
struct Quantization {
    Index codewords = 0; ///< K of each book; 0: Z travels as it is
    Index groups = 1;    ///< Gr, of columns of Z
    Index rounds = 1;    ///< R
    Index subsets = 1;   ///< S: a book has gone over once after so many micro-batches
    double decay = 0.9;  ///< rho

    friend bool operator==(const Quantization&, const Quantization&) = default;
};

/// All that the two sides of a boundary have to agree on.
struct Settings {
    Index width = 1;      ///< D, features
    Index rank = 1;       ///< r
    Index vocabulary = 1; ///< V
    Anchors anchors = Anchors::none;
    Order order = Order::project_first;
    double beta = 0.9;
    int direction_iterations = 8;  ///< T_d
    int retraction_iterations = 2; ///< T_r
    std::uint64_t seed = 1;        ///< of P
    Payload payload = Payload::fp32;
    Quantization quantization{};

    friend bool operator==(const Settings&, const Settings&) = default;
};

constexpr Index greatest_vocabulary = Index{1} << 32U;
constexpr int most_iterations = 1000;
constexpr Index most_codewords = 65536;
constexpr Index most_rounds = 1000;
constexpr double greatest_rate = 0.52; ///< of SPEL: from there on the retraction may not come back

/// Throws truestep::Error, one line.
void check(const Settings& settings);
/// Of a step of SPEL: at least 0 and less than `greatest_rate`.
void check_rate(double rate);
/// Throws truestep::Error with distance and bound where A (D x r, row after row) is not on the manifold.
void check_on_manifold(const Settings& settings, std::span<const float> a, Index steps = 0);
/// The same of P, r x D: its rows are to be orthonormal.
void check_rows(const Settings& settings, std::span<const float> rows);
/// |A^T A - I| in double, the greatest column sum of magnitudes: an upper bound of the spectral norm.
[[nodiscard]] double distance_to_manifold(std::span<const float> a, Index rank);
/// How far a matrix that was made in fp32 may be from the manifold (section 25).
[[nodiscard]] double manifold_tolerance(Index width, Index rank);

/// How far A may be: after steps also by what the retraction leaves at the greatest rate.
[[nodiscard]] double manifold_bound(const Settings& settings, Index steps);

/// The least whole bytes that hold V - 1, at least one.
[[nodiscard]] std::size_t id_bytes(Index vocabulary);
/// Of a value of Z or dZ.
[[nodiscard]] constexpr std::size_t value_bytes(Payload payload) {
    return payload == Payload::fp32 ? 4 : 2;
}

/// r x D with orthonormal rows, row after row: P of the sender, or of the receiver. Made in double, rounded
/// once. With `two` the sides differ; otherwise they have the same.
enum class Side : std::uint8_t { sender, receiver };
[[nodiscard]] std::vector<float> anchor_rows(const Settings& settings, Side side);
/// D x r with orthonormal columns, from a seed: where training starts.
[[nodiscard]] std::vector<float> first_subspace(Index width, Index rank, std::uint64_t seed);

} // namespace truestep::problem::mapl
