// Reads quantized messages and follows the codebooks.
#pragma once

#include <truestep/reference/mapl/vector_quantization.hpp>

#include "trial.hpp"

namespace truestep::properties::mapl {

/// The content of one forward message when Z is sent as indices.
struct QuantizedMessage {
    Indices indices;       ///< N x Gr R; 0 where something was missing
    Floats codewords;      ///< book after book
    std::string cannot_be; ///< what is impossible in it, or empty
};
[[nodiscard]] QuantizedMessage coded(const Scenario& scenario, const std::vector<RankRecording>& seen,
                                     Index boundary, Index step, Index micro);

/// The codebooks of a boundary from the beginning of a step on, as its messages make them: the receiver's
/// bit for bit, and what the sender learns by the reference, over float or Bounded.
template <class T>
class FollowedBooks {
  public:
    FollowedBooks(Trial& trial, Index boundary, Index step);

    /// Checks the next micro-batch against the reference's Z: the indices must be the nearest, and the
    /// codewords the learned ones. Returns Z as it was sent.
    [[nodiscard]] Matrix<T> follow(const Matrix<T>& Z, Index micro);
    /// Compares both sides' codebooks, and what the sender learned, after the step.
    void end();

    [[nodiscard]] const Quantizer<float>& receivers() const { return seen_; }

  private:
    void judge(const std::vector<Matrix<T>>& expected, const Floats& actual, const std::string& what);

    Trial& trial_;
    Index boundary_;
    Index step_;
    Quantizer<float> seen_; ///< C as it was sent
    Quantizer<T> made_;     ///< the same C, and L as the reference learns it
};

/// Compares indices and codewords bit for bit, where Z is known exactly. Returns whether Z as it was sent
/// has few bits.
[[nodiscard]] bool codewords_are_exact(Trial& trial, Index boundary, Index step);

} // namespace truestep::properties::mapl
