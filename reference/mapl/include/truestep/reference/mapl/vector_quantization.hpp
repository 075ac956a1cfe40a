// The reference of Z as indices of codewords (section 23.1), over any scalar.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/reference/mapl/boundary.hpp>

namespace truestep::reference::mapl {

/// The indices that travel for Z, N x Gr R: for each group, and for each round in it.
using Indices = Eigen::Matrix<Index, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

/// Z as indices of codewords: section 23.1, under its names.
template <class T>
struct Quantizer {
    using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;
    using Books = std::vector<Matrix<T>>; ///< K x r / Gr each, by group, then by round

    Settings settings;
    Books C;             ///< the receiver's codebooks
    Books L{};           ///< the sender's, still learning
    Index travelled = 0; ///< micro-batches so far

    [[nodiscard]] static Books books(const Settings& settings, std::span<const float> values) {
        const Codebooks shape = codebooks_of(settings);
        Books made;
        for (std::size_t book = 0; book < shape.books; ++book) {
            Matrix<T> words(static_cast<Index>(shape.words), static_cast<Index>(shape.width));
            for (Index i = 0; i < words.size(); ++i)
                words.data()[i] = static_cast<T>(
                    static_cast<double>(values[shape.at(book, 0) + static_cast<std::size_t>(i)]));
            made.push_back(words);
        }
        return made;
    }

    /// |v - c|^2, in ascending order.
    [[nodiscard]] static T distance(const Row& v, const Row& c) {
        T sum(0.0);
        for (Index i = 0; i < v.size(); ++i) {
            const T off = v(i) - c(i);
            sum = sum + (off * off);
        }
        return sum;
    }
    /// The nearest codeword; of two that are equally near, the first.
    [[nodiscard]] static Index nearest(const Row& v, const Matrix<T>& book) {
        Index best = 0;
        for (Index word = 1; word < book.rows(); ++word)
            if (distance(v, book.row(word)) < distance(v, book.row(best)))
                best = word;
        return best;
    }

    /// The columns of Z in a book's group.
    [[nodiscard]] Matrix<T> columns(const Matrix<T>& Z, std::size_t book) const {
        const auto width = C[book].cols();
        return Z.middleCols(static_cast<Index>(book) / settings.quantization.rounds * width, width);
    }
    /// v less the codewords chosen for it.
    [[nodiscard]] Matrix<T> residual(const Matrix<T>& v, const Indices& indices, std::size_t book) const {
        Matrix<T> left = v;
        for (Index token = 0; token < v.rows(); ++token)
            for (Index i = 0; i < v.cols(); ++i)
                left(token, i) = v(token, i) - C[book](indices(token, static_cast<Index>(book)), i);
        return left;
    }
    /// Calls choose(v, book) for each book with the rows v that it has to approximate, which depend
    /// on the choices before. `choose` may look at v and set the book's column of the indices.
    template <class Choose>
    void rounds(const Matrix<T>& Z, Indices& indices, const Choose& choose) const {
        const auto each = static_cast<std::size_t>(settings.quantization.rounds);
        Matrix<T> v;
        for (std::size_t book = 0; book < C.size(); ++book) {
            v = book % each == 0 ? columns(Z, book) : residual(v, indices, book - 1);
            choose(v, book);
        }
    }

    /// The sender's indices, from its mirror of C.
    [[nodiscard]] Indices encoded(const Matrix<T>& Z) const {
        Indices indices(Z.rows(), static_cast<Index>(C.size()));
        rounds(Z, indices, [&](const Matrix<T>& v, std::size_t book) {
            for (Index token = 0; token < v.rows(); ++token)
                indices(token, static_cast<Index>(book)) = nearest(v.row(token), C[book]);
        });
        return indices;
    }
    /// The receiver's Z, made from the indices.
    [[nodiscard]] Matrix<T> decoded(const Indices& indices) const {
        Matrix<T> Z = Matrix<T>::Constant(indices.rows(), settings.rank, T(0.0));
        for (std::size_t book = 0; book < C.size(); ++book) {
            const Matrix<T>& words = C[book];
            const Index first = static_cast<Index>(book) / settings.quantization.rounds * words.cols();
            for (Index token = 0; token < indices.rows(); ++token)
                for (Index i = 0; i < words.cols(); ++i)
                    Z(token, first + i) =
                        Z(token, first + i) + words(indices(token, static_cast<Index>(book)), i);
        }
        return Z;
    }

    /// L after a micro-batch: moving averages of the rows for which each codeword but the first was
    /// chosen.
    [[nodiscard]] Books learned(const Matrix<T>& Z, Indices indices) const {
        Books made = L;
        const T decay = T(settings.quantization.decay);
        const T rest = T(1.0 - settings.quantization.decay);
        rounds(Z, indices, [&](const Matrix<T>& v, std::size_t book) {
            for (Index word = 1; word < made[book].rows(); ++word) {
                Matrix<T> sum = Matrix<T>::Constant(1, v.cols(), T(0.0));
                double count = 0.0;
                for (Index token = 0; token < v.rows(); ++token)
                    if (indices(token, static_cast<Index>(book)) == word) {
                        sum = plus<T>(sum, v.row(token));
                        count += 1.0;
                    }
                if (count > 0.0)
                    for (Index i = 0; i < v.cols(); ++i)
                        made[book](word, i) =
                            (decay * made[book](word, i)) + (rest * (sum(0, i) / T(count)));
            }
        });
        return made;
    }

    /// Sends the codewords that travel with this micro-batch, after its indices were made and
    /// decoded.
    void stream() {
        for (const Word word : travelling(settings, travelled))
            for (std::size_t book = 0; book < C.size(); ++book)
                C[book].row(word) = L[book].row(word);
        ++travelled;
    }

    /// Sends one micro-batch through both sides; Z becomes the decoded values.
    [[nodiscard]] Indices through(Matrix<T>& Z) {
        Indices indices = encoded(Z);
        L = learned(Z, indices);
        Z = decoded(indices);
        stream();
        return indices;
    }
};

/// The forward pass of section 22 with Z as indices: Forward::Z holds the decoded values.
template <class T>
[[nodiscard]] Forward<T> forward(const Boundary<T>& of, Quantizer<T>& quantizer, const Matrix<T>& X,
                                 const Ids& ids) {
    Forward<T> made{ids, of.less_anchor(X, ids), {}, {}};
    made.Z = times(made.Q, of.A);
    static_cast<void>(quantizer.through(made.Z));
    made.Xhat = of.decompressed(made.Z, ids);
    return made;
}

// Compiled once, in instantiations.cpp.
extern template struct Quantizer<float>;
extern template struct Quantizer<double>;

} // namespace truestep::reference::mapl
