// When a step is refused or halts (section 4.1), and the errors that say so.
#pragma once

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>

#include <truestep/problem/error.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/reference/vector.hpp>

namespace truestep::reference::scape {

/// The greatest magnitude a gradient may have (section 4.1).
constexpr double greatest_gradient = 0x1p56;

/// A step that all ranks refused: no state has changed, and the next good step works.
class RefusedStep : public std::runtime_error {
  public:
    RefusedStep(int on_rank, Index at_index, double refused, const problem::Layout& layout)
        : RefusedStep(on_rank, at_index, refused, layout, "the gradient",
                      "it must be finite and at most 2^56 in magnitude", false) {}
    /// The refusal of a c that bf16 cannot hold (section 21).
    [[nodiscard]] static RefusedStep of_payload(int on_rank, Index at_index, double refused,
                                                const problem::Layout& layout) {
        return {on_rank, at_index, refused,
                layout,  "c",      "a payload of bf16 holds nothing beyond 3.39e+38, use fp32",
                true};
    }
    /// The same refusal with the coordinates of a whole, in which the layout begins at `offset`.
    [[nodiscard]] RefusedStep within(const problem::Layout& whole, Index offset) const {
        return payload ? of_payload(rank, index + offset, value, whole)
                       : RefusedStep(rank, index + offset, value, whole);
    }

    int rank;
    Index index;
    double value;
    bool payload; ///< it is a c that bf16 cannot hold, found after all gradients have passed

  private:
    RefusedStep(int on_rank, Index at_index, double refused, const problem::Layout& layout,
                const std::string& what, const std::string& must, bool of_payload)
        : std::runtime_error("step refused on all ranks: " + what + " of rank " + std::to_string(on_rank) +
                             ", " + layout.describe(at_index) + ", is " + shortest(refused) + "; " + must),
          rank(on_rank), index(at_index), value(refused), payload(of_payload) {}
};

/// The state has turned non-finite, or did so in an earlier step: no further step until a state is
/// restored.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

/// Section 4.1, first half: throws RefusedStep for the first offending value, by rank and then by index.
template <class T>
void refuse_unless_finite(const PerRank<T>& g, const problem::Layout& layout) {
    for (std::size_t rank = 0; rank < g.size(); ++rank)
        for (Index index = 0; index < g[rank].size(); ++index)
            if (const auto value = static_cast<double>(g[rank][index]);
                !(std::abs(value) <= greatest_gradient))
                throw RefusedStep(static_cast<int>(rank), index, value, layout);
}

/// Section 4.1, second half: throws Halted, naming the first coordinate where w or m is a NaN or an
/// infinity. Called after a step and before the next, so that no step follows until a good state is
/// restored.
template <class T>
void halt_unless_finite(const Vector<T>& w, const Vector<T>& m, Index step, const problem::Layout& layout) {
    const auto look = [&](const char* what, const Vector<T>& values) {
        for (Index index = 0; index < values.size(); ++index)
            if (const auto value = static_cast<double>(values[index]); !std::isfinite(value))
                throw Halted("halted after step " + std::to_string(step) + ": " + what + " of " +
                             layout.describe(index) + " is " + shortest(value) +
                             "; restore a finite state to continue");
    };
    look("the first moment", m);
    look("the parameter", w);
}

/// Throws truestep::Error unless there are `count` vectors of the model's size.
template <class T>
void check_sizes(const problem::Layout& layout, int count, const PerRank<T>& vectors,
                 const std::string& what) {
    if (vectors.size() != static_cast<std::size_t>(count))
        throw Error(what + ": " + std::to_string(vectors.size()) + " vectors given; the problem has " +
                    std::to_string(count) + " workers, give one each");
    for (std::size_t rank = 0; rank < vectors.size(); ++rank)
        if (vectors[rank].size() != layout.size())
            throw Error(what + " of rank " + std::to_string(rank) + ": it has " +
                        std::to_string(vectors[rank].size()) + " values; the model has " +
                        std::to_string(layout.size()) + " parameters");
}

} // namespace truestep::reference::scape
