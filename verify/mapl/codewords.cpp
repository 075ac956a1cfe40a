// Judges the codeword indices and codebooks of a MAPL trace.
#include "codewords.hpp"

#include <cmath>
#include <type_traits>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/mapl/traces.hpp>

namespace truestep::verify::mapl {

namespace {

template <class T>
Matrix<T> with_scalars_of(const Matrix<float>& values) {
    return values.unaryExpr([](float value) { return static_cast<T>(static_cast<double>(value)); });
}

} // namespace

template <class T>
TracedCodewords<T>::TracedCodewords(const Settings& settings, const std::vector<float>& codebooks,
                                    const std::vector<float>& learned, Index before, bool free)
    : free_(free), seen_{settings, Quantizer<float>::books(settings, codebooks), {}, before},
      made_{settings, Quantizer<T>::books(settings, codebooks), Quantizer<T>::books(settings, learned),
            before} {}

template <class T>
Indices TracedCodewords<T>::recorded_indices(Index tokens, Index micro, const StepOfTrace& step) const {
    const std::vector<float> recorded = step.recorded("indices", micro).value();
    Indices indices(tokens, static_cast<Index>(made_.C.size()));
    for (Index place = 0; place < indices.size(); ++place) {
        const double index = static_cast<double>(recorded[static_cast<std::size_t>(place)]);
        if (!(index >= 0.0 && index < static_cast<double>(made_.settings.quantization.codewords)) ||
            index != std::floor(index))
            throw Error(of_micro("indices", micro) + ", entry " + std::to_string(place) + ", is " +
                        shortest(index) + "; there are " +
                        std::to_string(made_.settings.quantization.codewords) + " codewords");
        indices.data()[place] = static_cast<Index>(index);
    }
    return indices;
}

template <class T>
void TracedCodewords<T>::judge(const Matrix<T>& Z, Indices indices, Index micro,
                               const StepOfTrace& step) const {
    verify::Comparison comparison;
    comparison.expected_size = comparison.actual_size = comparison.compared = comparison.nonzero =
        indices.size();
    std::string note;
    made_.rounds(Z, indices, [&](const Matrix<T>& v, std::size_t book) {
        for (Index token = 0; token < v.rows(); ++token) {
            const Index word = indices(token, static_cast<Index>(book));
            if (is_nearest(v.row(token), made_.C[book], word))
                continue;
            ++comparison.mismatched;
            if (note.empty())
                note = "token " + std::to_string(token) + ", book " + std::to_string(book) + ": codeword " +
                       std::to_string(word) + " is not the nearest, or not the first of those";
        }
    });
    if (!note.empty())
        note += "; " + verify::summary(comparison);
    step.add("indices", micro, std::move(comparison), note);
}

template <class T>
Matrix<T> TracedCodewords<T>::through(const Matrix<T>& Z, Index micro, const StepOfTrace& step) {
    Indices indices = recorded_indices(Z.rows(), micro, step);
    judge(Z, indices, micro, step);
    if constexpr (std::is_same_v<T, float>)
        if (free_)
            indices = made_.encoded(Z);
    made_.L = made_.learned(Z, indices);
    const Matrix<float> decoded = seen_.decoded(indices);
    const std::vector<float> codewords = step.recorded("codewords", micro).value();
    const std::vector<Word> words = travelling(made_.settings, made_.travelled);
    step.add("codewords", micro, compared(in_one_row(made_.L, words), codewords), "");
    if (const auto recorded = step.recorded("Z", micro)) // bit for bit, at every level
        step.add("Z", micro, compared(decoded, *recorded), "");
    std::size_t from = 0;
    for (std::size_t book = 0; book < seen_.C.size(); ++book) {
        for (const Word word : words)
            for (Index i = 0; i < seen_.C[book].cols(); ++i, ++from)
                seen_.C[book](word, i) =
                    free_ ? static_cast<float>(static_cast<double>(made_.L[book](word, i)))
                          : codewords[from];
        made_.C[book] = with_scalars_of<T>(seen_.C[book]);
    }
    ++made_.travelled;
    return with_scalars_of<T>(decoded);
}

template <class T>
void TracedCodewords<T>::end_step(const StepOfTrace& step) {
    if (const auto recorded = step.recorded("L", 0)) {
        step.add("L", 0, compared(in_one_row(made_.L), *recorded), "");
        if (!free_)
            made_.L = Quantizer<T>::books(made_.settings, *recorded);
    }
    for (const char* name : {"C", "C_receiver"})
        if (const auto recorded = step.recorded(name, 0))
            step.add(name, 0, compared(in_one_row(seen_.C), *recorded), "");
}

template class TracedCodewords<float>;
template class TracedCodewords<Bounded>;

bool is_of_codebooks(const std::string& name) {
    return name == "codewords" || name == "L" || name == "C" || name == "C_receiver";
}

std::string place_in_codebooks(const Settings& settings, const std::string& name, Index index) {
    const Codebooks shape = codebooks_of(settings);
    const bool some = name == "codewords";
    const auto width = static_cast<Index>(shape.width);
    const Index words = settings.quantization.codewords / (some ? settings.quantization.subsets : 1);
    return "book " + std::to_string(index / (words * width)) + ", codeword " +
           std::to_string(index / width % words) + (some ? " of those that travel" : "") + ", value " +
           std::to_string(index % width);
}

} // namespace truestep::verify::mapl
