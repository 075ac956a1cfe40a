// The results of a step of SCAPE or AdamS, by the phases that make them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <truestep/problem/problem.hpp>
#include <truestep/reference/vector.hpp>
#include <truestep/trace/schema.hpp>

namespace truestep::verify::scape {

using problem::Index;
using reference::Coordinates;
using reference::PerRank;
using reference::Vector;

/// The phase of a step (section 4) in which a value is made.
enum class Phase { check, local, mask, exchange, reconstruct, residual, clip, update };

[[nodiscard]] std::string_view name(Phase phase);

/// The results of a step that a trace can hold, in the order in which the step makes them.
enum class Result { local, mask, next_mask, exchanged, reconstructed, residual, first_moment, parameters };

struct ResultKind : trace::Kind {
    Result result{};
};

constexpr std::array<ResultKind, 8> result_kinds{{
    {{"local", true, false, true}, Result::local},
    {{"mask", false, true, false}, Result::mask},
    {{"next_mask", false, true, false}, Result::next_mask},
    {{"exchanged", false, false, true}, Result::exchanged},
    {{"reconstructed", false, false, true}, Result::reconstructed},
    {{"residual", true, false, false}, Result::residual},
    {{"first_moment", false, false, false}, Result::first_moment},
    {{"parameters", false, false, false}, Result::parameters},
}};

[[nodiscard]] constexpr const ResultKind& kind_of(Result result) {
    return result_kinds[static_cast<std::size_t>(result)];
}
static_assert(kind_of(Result::local).result == Result::local &&
              kind_of(Result::parameters).result == Result::parameters);

constexpr trace::Kind gradient_kind{"gradient", true, false, false};

/// The phase to which a wrong value of this result points.
[[nodiscard]] Phase phase_of(Result result, const problem::Problem& problem);

/// One step's results, full length each. Results that the algorithm does not have are empty.
template <class T>
struct StepResults {
    PerRank<T> local;
    Coordinates mask;
    Coordinates next_mask;
    Vector<T> exchanged;
    Vector<T> reconstructed;
    PerRank<T> residual;
    Vector<T> first_moment;
    Vector<T> parameters;

    /// A result's values for one rank; nullptr if the algorithm has none. Not for masks.
    [[nodiscard]] const Vector<T>* values(Result result, int rank) const {
        const auto of_rank = [rank](const PerRank<T>& all) {
            return static_cast<std::size_t>(rank) < all.size() ? &all[static_cast<std::size_t>(rank)]
                                                               : nullptr;
        };
        const auto if_any = [](const Vector<T>& one) { return one.size() > 0 ? &one : nullptr; };
        switch (result) {
        case Result::local:
            return of_rank(local);
        case Result::residual:
            return of_rank(residual);
        case Result::exchanged:
            return if_any(exchanged);
        case Result::reconstructed:
            return if_any(reconstructed);
        case Result::first_moment:
            return if_any(first_moment);
        case Result::parameters:
            return if_any(parameters);
        case Result::mask:
        case Result::next_mask:
            break;
        }
        return nullptr;
    }

    [[nodiscard]] const Coordinates& mask_of(Result result) const {
        return result == Result::mask ? mask : next_mask;
    }
};

/// The bits of a mask as section 9 stores them: bit i is (byte i/8 >> i%8) & 1.
[[nodiscard]] std::vector<std::uint8_t> to_bits(const Coordinates& mask, Index size);
/// The coordinates of the set bits below `size`.
[[nodiscard]] Coordinates to_coordinates(const std::vector<std::uint8_t>& bits, Index size);

} // namespace truestep::verify::scape
