// The settings of MAPL, their checks, and the matrices with which both sides begin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <truestep/problem/layout.hpp>

namespace truestep::problem::mapl {

using problem::Index;

/// What is subtracted from the activations before compression and added back afterwards (section
/// 22).
enum class Anchors : std::uint8_t {
    none,   ///< nothing
    fixed,  ///< one table for both sides, never trained
    shared, ///< one table for both sides, trained: its gradient is summed over both
    two,    ///< a table for each side, each trained by its own
};
/// The order of projection and momentum in SPEL (section 24).
enum class Order : std::uint8_t { project_first, momentum_first };

/// The format in which a value of Z or dZ travels (section 23).
enum class Payload : std::uint8_t { fp32, bf16 };

[[nodiscard]] std::string_view name(Anchors anchors);
[[nodiscard]] std::string_view name(Order order);
[[nodiscard]] std::string_view name(Payload payload);
/// All throw truestep::Error that lists the valid words.
[[nodiscard]] Anchors parse_anchors(std::string_view text);
[[nodiscard]] Order parse_order(std::string_view text);
[[nodiscard]] Payload parse_payload(std::string_view text);

/// The settings of Z where it travels as indices of codewords (section 23.1).
struct Quantization {
    Index codewords = 0; ///< K of each book; 0: Z is not quantized
    Index groups = 1;    ///< Gr, of columns of Z
    Index rounds = 1;    ///< R
    Index subsets = 1;   ///< S: a whole book has travelled after this many micro-batches
    double decay = 0.9;  ///< rho

    friend bool operator==(const Quantization&, const Quantization&) = default;
};

/// The settings on which the two sides of a boundary must agree.
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

/// Calls visit(name, member) for each setting, in the order of messages and checkpoints. For a word
/// it also passes the function that parses it.
template <class AnySettings, class Visit>
void visit_settings(AnySettings& settings, const Visit& visit) {
    visit("width", settings.width);
    visit("rank", settings.rank);
    visit("vocabulary", settings.vocabulary);
    visit("anchors", settings.anchors, parse_anchors);
    visit("order", settings.order, parse_order);
    visit("beta", settings.beta);
    visit("direction_iterations", settings.direction_iterations);
    visit("retraction_iterations", settings.retraction_iterations);
    visit("seed", settings.seed);
    visit("payload", settings.payload, parse_payload);
    visit("codewords", settings.quantization.codewords);
    visit("groups", settings.quantization.groups);
    visit("rounds", settings.quantization.rounds);
    visit("subsets", settings.quantization.subsets);
    visit("decay", settings.quantization.decay);
}

constexpr Index greatest_vocabulary = Index{1} << 32U;
constexpr Index greatest_width = Index{1} << 24U; ///< so that no product of two sizes overflows
constexpr int most_iterations = 1000;
constexpr Index most_codewords = 65536;
constexpr Index most_rounds = 1000;
constexpr double greatest_rate = 0.52; ///< of SPEL: from here on the retraction may fail

/// Throws truestep::Error, one line.
void check(const Settings& settings);
/// Checks the rate of a step of SPEL: at least 0 and less than `greatest_rate`.
void check_rate(double rate);
/// Throws truestep::Error with distance and bound if A (D x r, row by row) is not on the manifold.
void check_on_manifold(const Settings& settings, std::span<const float> a, Index steps = 0);
/// The same check for P (r x D), whose rows must be orthonormal.
void check_rows(const Settings& settings, std::span<const float> rows);
/// |A^T A - I| in double, the greatest column sum of magnitudes: an upper bound of the spectral norm.
[[nodiscard]] double distance_to_manifold(std::span<const float> a, Index rank);
/// The greatest distance from the manifold of a matrix made in fp32 (section 25).
[[nodiscard]] double manifold_tolerance(Index width, Index rank);

/// The greatest distance of A. After steps it also allows what the retraction leaves at the
/// greatest rate.
[[nodiscard]] double manifold_bound(const Settings& settings, Index steps);

/// The least whole bytes that hold V - 1, at least one.
[[nodiscard]] std::size_t id_bytes(Index vocabulary);
/// The bytes of a value of Z or dZ.
[[nodiscard]] constexpr std::size_t value_bytes(Payload payload) {
    return payload == Payload::fp32 ? 4 : 2;
}

/// The sender's or receiver's P: r x D with orthonormal rows, row by row, made in double and
/// rounded once. The sides differ only for anchors `two`.
enum class Side : std::uint8_t { sender, receiver };
[[nodiscard]] std::vector<float> anchor_rows(const Settings& settings, Side side);
/// D x r with orthonormal columns, drawn from a seed: where training starts.
[[nodiscard]] std::vector<float> first_subspace(Index width, Index rank, std::uint64_t seed);

} // namespace truestep::problem::mapl
