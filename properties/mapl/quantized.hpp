#pragma once

#include <truestep/reference/mapl/vector_quantization.hpp>

#include "trial.hpp"

namespace truestep::properties::mapl {

/// What the wire had of one micro-batch forward, where Z travels as indices.
struct Coded {
    Indices indices;       ///< N x Gr R; 0 where something was missing
    Floats codewords;      ///< those of each book, one behind the other
    std::string cannot_be; ///< what of it cannot be, or nothing
};
[[nodiscard]] Coded coded(const Scenario& scenario, const std::vector<Seen>& seen, Index boundary,
                          Index step, Index micro);

/// The codebooks of a boundary from one step's begin on, as its messages make them: the receiver's to the
/// bit, and what the sender learns by the reference, over float or Bounded.
template <class T>
class FollowedBooks {
  public:
    FollowedBooks(Trial& trial, Index boundary, Index step);

    /// The reference's Z of the next micro-batch: its indices are to be the nearest, and the codewords
    /// those that were learned. Returns Z as it travelled.
    [[nodiscard]] Matrix<T> follow(const Matrix<T>& Z, Index micro);
    /// Both sides' copies behind the step.
    void end();

    [[nodiscard]] const Quantizer<float>& receivers() const { return seen_; }

  private:
    void judge(const std::vector<Matrix<T>>& expected, const Floats& actual, const std::string& what);

    Trial& trial_;
    Index boundary_;
    Index step_;
    Quantizer<float> seen_; ///< C as it was sent
    Quantizer<T> made_;     ///< the same C, and L as it should be
};

} // namespace truestep::properties::mapl
