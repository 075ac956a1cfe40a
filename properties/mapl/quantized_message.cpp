// Decodes messages that hold codeword indices, and checks that the codebooks follow the rule.
#include "quantized_message.hpp"

#include <algorithm>
#include <cstring>

#include <truestep/verify/mapl/judgement.hpp>

namespace truestep::properties::mapl {

namespace {

template <class T>
Matrix<T> scalars_of(const Matrix<float>& values) {
    return values.unaryExpr([](float value) { return static_cast<T>(static_cast<double>(value)); });
}

} // namespace

QuantizedMessage coded(const Scenario& scenario, const std::vector<RankRecording>& seen, Index boundary,
                       Index step, Index micro) {
    const Settings settings = scenario.settings(boundary, Side::sender);
    const Codebooks shape = codebooks_of(settings);
    const std::size_t tokens = scenario.ids(step, micro).size();
    const unsigned bits = index_bits(settings.quantization.codewords);
    const std::size_t words_at = index_bytes(settings, tokens) + tokens * id_bytes(settings.vocabulary);
    QuantizedMessage made{Indices::Zero(static_cast<Index>(tokens), static_cast<Index>(shape.books)),
                          Floats(codeword_bytes(settings) / sizeof(float)),
                          {}};
    const auto& wire = seen[static_cast<std::size_t>(boundary)].wire;
    const auto found = wire.find(wire_key(key(step, micro, "forward"), static_cast<int>(boundary) + 1));
    const std::size_t wanted = words_at + codeword_bytes(settings);
    const std::size_t got = found == wire.end() ? 0 : found->second.size();
    if (got != wanted) {
        made.cannot_be = std::to_string(got) + " bytes; it is to be " + std::to_string(wanted);
        return made;
    }
    const std::vector<std::uint8_t>& bytes = found->second;
    for (Index place = 0; place < made.indices.size(); ++place) {
        Index word = 0;
        for (unsigned bit = 0; bit < bits; ++bit) {
            const std::size_t at = static_cast<std::size_t>(place) * bits + bit;
            word |= static_cast<Index>(bytes[at / 8] >> at % 8 & 1U) << bit;
        }
        if (word >= settings.quantization.codewords) {
            made.cannot_be = "index " + std::to_string(word) + " of " +
                             std::to_string(settings.quantization.codewords) + " codewords";
            word = 0;
        }
        made.indices.data()[place] = word;
    }
    if (!made.codewords.empty())
        std::memcpy(made.codewords.data(), bytes.data() + words_at, codeword_bytes(settings));
    return made;
}

template <class T>
FollowedBooks<T>::FollowedBooks(Trial& trial, Index boundary, Index step)
    : trial_(trial), boundary_(boundary), step_(step) {
    const Settings settings = trial.scenario.settings(boundary, Side::sender);
    const RankRecording& sender = trial.seen[static_cast<std::size_t>(boundary)];
    const Floats& books = sender.at(key(step, "s.C"));
    const Index travelled = step * trial.run.micro;
    seen_ = {settings, Quantizer<float>::books(settings, books), {}, travelled};
    made_ = {settings, Quantizer<T>::books(settings, books),
             Quantizer<T>::books(settings, sender.at(key(step, "s.L"))), travelled};
}

template <>
void FollowedBooks<float>::judge(const std::vector<Matrix<float>>& expected, const Floats& actual,
                                 const std::string& what) {
    Floats all;
    for (const Matrix<float>& book : expected)
        all.insert(all.end(), book.data(), book.data() + book.size());
    trial_.same(all, actual, step_, boundary_text(boundary_, what), "the reference's");
}

template <>
void FollowedBooks<verify::Bounded>::judge(const std::vector<Matrix<verify::Bounded>>& expected,
                                           const Floats& actual, const std::string& what) {
    Matrix<verify::Bounded> all(1, 0);
    for (const Matrix<verify::Bounded>& book : expected) {
        const Index before = all.cols();
        all.conservativeResize(1, before + book.size());
        for (Index i = 0; i < book.size(); ++i)
            all(0, before + i) = book.data()[i];
    }
    trial_.near(all, actual, step_, boundary_text(boundary_, what));
}

template <class T>
Matrix<T> FollowedBooks<T>::follow(const Matrix<T>& Z, Index micro) {
    QuantizedMessage wire = coded(trial_.scenario, trial_.seen, boundary_, step_, micro);
    trial_.expect(wire.cannot_be.empty(), step_,
                  [&] { return boundary_text(boundary_, key(step_, micro, wire.cannot_be)); });
    made_.rounds(Z, wire.indices, [&](const Matrix<T>& v, std::size_t book) {
        for (Index token = 0; token < v.rows(); ++token) {
            const Index word = wire.indices(token, static_cast<Index>(book));
            trial_.expect(verify::mapl::is_nearest(v.row(token), made_.C[book], word), step_, [&] {
                return boundary_text(boundary_, key(step_, micro, "codeword ")) + std::to_string(word) +
                       " of book " + std::to_string(book) + " is not the nearest to token " +
                       std::to_string(token);
            });
        }
    });
    made_.L = made_.learned(Z, wire.indices);
    const Matrix<float> decoded = seen_.decoded(wire.indices);
    const std::vector<Word> words = travelling(made_.settings, made_.travelled);
    std::vector<Matrix<T>> wanted;
    for (const Matrix<T>& book : made_.L) {
        Matrix<T> rows(static_cast<Index>(words.size()), book.cols());
        for (Index i = 0; i < rows.rows(); ++i)
            rows.row(i) = book.row(words[static_cast<std::size_t>(i)]);
        wanted.push_back(rows);
    }
    judge(wanted, wire.codewords, key(step_, micro, "the codewords that travel"));
    // Continues with the codewords that were sent, right or not.
    const float* from = wire.codewords.data();
    for (Matrix<float>& book : seen_.C)
        for (const Word word : words)
            for (Index i = 0; i < book.cols(); ++i)
                book(word, i) = *from++;
    for (std::size_t book = 0; book < made_.C.size(); ++book)
        made_.C[book] = scalars_of<T>(seen_.C[book]);
    ++made_.travelled;
    ++seen_.travelled;
    return scalars_of<T>(decoded);
}

template <class T>
void FollowedBooks<T>::end() {
    const RankRecording& sender = trial_.seen[static_cast<std::size_t>(boundary_)];
    const RankRecording& receiver = trial_.seen[static_cast<std::size_t>(boundary_) + 1];
    judge(made_.L, sender.at(key(step_ + 1, "s.L")), "what was learned in " + key(step_, "L"));
    Floats books;
    for (const Matrix<float>& book : seen_.C)
        books.insert(books.end(), book.data(), book.data() + book.size());
    trial_.same(books, sender.at(key(step_ + 1, "s.C")), step_,
                boundary_text(boundary_, "the sender's codebooks after " + key(step_, "C")),
                "what travelled");
    trial_.same(books, receiver.at(key(step_ + 1, "r.C")), step_,
                boundary_text(boundary_, "the receiver's codebooks after " + key(step_, "C")),
                "what travelled");
}

template class FollowedBooks<float>;
template class FollowedBooks<verify::Bounded>;

bool codewords_are_exact(Trial& trial, Index boundary, Index step) {
    const auto b = static_cast<std::size_t>(boundary);
    const Boundary<float> sides = shown_boundary<float>(trial, boundary, step);
    FollowedBooks<float> books(trial, boundary, step);
    bool few = true;
    for (Index micro = 0; micro < trial.run.micro; ++micro) {
        const Floats& x = trial.seen[b].at(key(step, micro, "X"));
        Matrix<float> X(static_cast<Index>(x.size()) / trial.run.width, trial.run.width);
        std::ranges::copy(x, X.data());
        const Matrix<float> Z = times(sides.less_anchor(X, ids_of(trial, step, micro)), sides.A);
        few = few_bits(floats_of(books.follow(Z, micro))) && few;
    }
    books.end();
    return few;
}

} // namespace truestep::properties::mapl
