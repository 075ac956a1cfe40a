// The reference of a MAPL boundary, forward and backward (section 22), over any scalar.
#pragma once

#include <vector>

#include <truestep/problem/mapl/settings.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/reference/mapl/matrix.hpp>

namespace truestep::reference::mapl {

using namespace problem::mapl;
using problem::mapl::Settings; // not that of <truestep/optimizer.hpp>

/// The ids of N tokens, each from 0 to V-1.
using Ids = std::vector<Index>;

/// A side's anchor: E is V x r, P is r x D. Without rows there is no anchor.
template <class T>
struct Anchor {
    Matrix<T> E;
    Matrix<T> P;

    [[nodiscard]] bool none() const { return E.rows() == 0; }
    /// E[ids].
    [[nodiscard]] Matrix<T> gathered(const Ids& ids) const {
        Matrix<T> rows(static_cast<Index>(ids.size()), E.cols());
        for (std::size_t token = 0; token < ids.size(); ++token)
            rows.row(static_cast<Index>(token)) = E.row(ids[token]);
        return rows;
    }
};

/// How a value is rounded to bf16 to travel. A scalar that carries a bound specializes it.
template <class T>
struct Sent {
    static T bf16(const T& value) {
        return static_cast<T>(reference::nearest_bf16(static_cast<double>(value)));
    }
};

/// The values that pass a boundary with one micro-batch, under the specification's names.
template <class T>
struct Forward {
    Ids ids;
    Matrix<T> Q;
    Matrix<T> Z; ///< as sent
    Matrix<T> Xhat;
};
template <class T>
struct Backward {
    Matrix<T> dZ;
    Matrix<T> dX;
};

/// The gradients of one step, summed over its micro-batches.
template <class T>
struct Gradients {
    Matrix<T> sender;   ///< of A, Q^T dZ
    Matrix<T> receiver; ///< of A, G^T Z
    Matrix<T> dEp;      ///< V x r; empty where that side's anchor is not trained
    Matrix<T> dEq;

    [[nodiscard]] Matrix<T> of_basis() const { return plus(sender, receiver); }
    /// The gradient of the one table, where both sides share it.
    [[nodiscard]] Matrix<T> of_anchors() const { return plus(dEp, dEq); }
};

/// One boundary with both its sides: section 22, in its order.
template <class T>
struct Boundary {
    Matrix<T> A; ///< D x r
    Anchor<T> p; ///< the sender's
    Anchor<T> q; ///< the receiver's
    bool trains_anchors = true;
    Payload payload = Payload::fp32;

    /// Z or dZ as sent (section 23).
    [[nodiscard]] Matrix<T> sent(const Matrix<T>& values) const {
        if (payload == Payload::fp32)
            return values;
        return values.unaryExpr([](const T& value) { return Sent<T>::bf16(value); });
    }

    /// The sender's Q: X without its anchor.
    [[nodiscard]] Matrix<T> less_anchor(const Matrix<T>& X, const Ids& ids) const {
        if (p.none())
            return X;
        return minus(X, times(p.gathered(ids), p.P));
    }
    /// The receiver's Xhat.
    [[nodiscard]] Matrix<T> decompressed(const Matrix<T>& Z, const Ids& ids) const {
        Matrix<T> expanded = times(Z, transposed(A));
        if (q.none())
            return expanded;
        return plus(expanded, times(q.gathered(ids), q.P));
    }
    [[nodiscard]] Forward<T> forward(const Matrix<T>& X, const Ids& ids) const {
        Forward<T> made{ids, less_anchor(X, ids), {}, {}};
        made.Z = sent(times(made.Q, A));
        made.Xhat = decompressed(made.Z, ids);
        return made;
    }

    [[nodiscard]] Gradients<T> no_gradients() const {
        const auto zeros = [](Index rows, Index cols) { return Matrix<T>::Constant(rows, cols, T(0.0)); };
        const Index of_p = trains_anchors ? p.E.rows() : 0;
        const Index of_q = trains_anchors ? q.E.rows() : 0;
        return {zeros(A.rows(), A.cols()), zeros(A.rows(), A.cols()), zeros(of_p, A.cols()),
                zeros(of_q, A.cols())};
    }

    /// The receiver's part: dZ of G = dL/dXhat. Adds to the step's gradients.
    [[nodiscard]] Matrix<T> receivers_backward(const Matrix<T>& G, const Matrix<T>& Z, const Ids& ids,
                                               Gradients<T>& gradients) const {
        gradients.receiver = plus(gradients.receiver, times(transposed(G), Z));
        if (gradients.dEq.rows() > 0)
            add_to_rows(gradients.dEq, ids, times(G, transposed(q.P)));
        return sent(times(G, A));
    }
    /// The sender's part: dX. It, too, adds to the step's gradients.
    [[nodiscard]] Matrix<T> senders_backward(const Matrix<T>& dZ, const Matrix<T>& Q, const Ids& ids,
                                             Gradients<T>& gradients) const {
        Matrix<T> dX = times(dZ, transposed(A));
        gradients.sender = plus(gradients.sender, times(transposed(Q), dZ));
        if (gradients.dEp.rows() > 0)
            add_to_rows(gradients.dEp, ids, scaled(T(-1.0), times(dX, transposed(p.P))));
        return dX;
    }
    /// The backward pass of both sides, for what `of` sent forward.
    [[nodiscard]] Backward<T> backward(const Matrix<T>& G, const Forward<T>& of,
                                       Gradients<T>& gradients) const {
        Backward<T> made{receivers_backward(G, of.Z, of.ids, gradients), {}};
        made.dX = senders_backward(made.dZ, of.Q, of.ids, gradients);
        return made;
    }

  private:
    /// Adds in token order: tokens with the same id add to the same row.
    static void add_to_rows(Matrix<T>& rows, const Ids& ids, const Matrix<T>& values) {
        for (std::size_t token = 0; token < ids.size(); ++token)
            for (Index j = 0; j < rows.cols(); ++j)
                rows(ids[token], j) = rows(ids[token], j) + values(static_cast<Index>(token), j);
    }
};

// Compiled once, in instantiations.cpp.
extern template struct Boundary<float>;
extern template struct Boundary<double>;

} // namespace truestep::reference::mapl
