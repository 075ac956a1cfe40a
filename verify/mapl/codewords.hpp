#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <truestep/reference/mapl/vector_quantization.hpp>
#include <truestep/verify/compare_with_reference.hpp>
#include <truestep/verify/mapl/judgement.hpp>

// Z as indices of codewords, in traces (section 23.1).
namespace truestep::verify::mapl {

/// Whether fp32 may overflow for this value.
[[nodiscard]] inline bool overflows(const Bounded& value) {
    constexpr auto greatest = static_cast<double>(std::numeric_limits<float>::max());
    return std::abs(value.value()) + value.error() > greatest;
}
[[nodiscard]] inline bool may_overflow(const Matrix<Bounded>& values) {
    return std::any_of(values.data(), values.data() + values.size(), overflows);
}

/// Compares values; non-finite ones are not judged where fp32 may overflow (section 6).
template <class T>
[[nodiscard]] verify::Comparison compared(const Matrix<T>& expected, const std::vector<float>& actual) {
    const Eigen::Map<const verify::Values<T>> flat(expected.data(), expected.size());
    verify::Values<T> values(flat);
    if constexpr (std::is_same_v<T, Bounded>) {
        std::vector<float> given = actual;
        for (std::size_t i = 0; i < std::min(given.size(), static_cast<std::size_t>(values.size())); ++i)
            if (Bounded& value = values[static_cast<Index>(i)];
                !std::isfinite(given[i]) && overflows(value)) {
                value = Bounded(0.0, std::numeric_limits<double>::infinity());
                given[i] = 0.0F;
            }
        return verify::compare_with(values, given);
    } else {
        return verify::compare_with(values, actual);
    }
}

/// All codebooks, or these words of each book, in one row as in a trace.
template <class T>
[[nodiscard]] Matrix<T> in_one_row(const std::vector<Matrix<T>>& books) {
    Matrix<T> all(1, 0);
    for (const Matrix<T>& book : books) {
        const Index before = all.cols();
        all.conservativeResize(1, before + book.size());
        for (Index i = 0; i < book.size(); ++i)
            all(0, before + i) = book.data()[i];
    }
    return all;
}
template <class T>
[[nodiscard]] Matrix<T> in_one_row(const std::vector<Matrix<T>>& books, const std::vector<Word>& words) {
    std::vector<Matrix<T>> some;
    for (const Matrix<T>& book : books) {
        Matrix<T> rows(static_cast<Index>(words.size()), book.cols());
        for (Index i = 0; i < rows.rows(); ++i)
            rows.row(i) = book.row(words[static_cast<std::size_t>(i)]);
        some.push_back(rows);
    }
    return in_one_row(some);
}

/// How a checker reads the results of a step and reports findings. Results of a micro-batch have
/// its number.
struct StepOfTrace {
    std::function<std::optional<std::vector<float>>(const char* name, Index micro)> recorded;
    std::function<void(const char* name, Index micro, verify::Comparison, const std::string& note)> add;
};

/// Checks the codebooks of both sides in one trace. T is float for EXACT, Bounded for REL. `free`:
/// the reference's own indices and codewords continue, else the recorded ones, right or wrong.
template <class T>
class TracedCodewords {
  public:
    TracedCodewords(const Settings& settings, const std::vector<float>& codebooks,
                    const std::vector<float>& learned, Index before, bool free);

    /// Replaces Z of the next micro-batch by what travels of it.
    [[nodiscard]] Matrix<T> through(const Matrix<T>& Z, Index micro, const StepOfTrace& step);
    void end_step(const StepOfTrace& step);

  private:
    [[nodiscard]] Indices recorded_indices(Index tokens, Index micro, const StepOfTrace& step) const;
    void judge(const Matrix<T>& Z, Indices indices, Index micro, const StepOfTrace& step) const;

    bool free_;
    Quantizer<float> seen_; ///< C made of the codewords that travelled
    Quantizer<T> made_;     ///< the same C, with the expected L
};

/// A place such as "book 1, codeword 3, value 0", for results with a codebook's layout.
[[nodiscard]] bool is_of_codebooks(const std::string& name);
[[nodiscard]] std::string place_in_codebooks(const Settings& settings, const std::string& name,
                                             Index index);

} // namespace truestep::verify::mapl
