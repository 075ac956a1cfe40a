// Known bugs that instruction sets, compilers and devices really make, under the plain variant's names.
#include "planted.hpp"

#include <bit>
#include <cmath>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace truestep::properties::scape::floats {

namespace {

using distributed::host::plain_table;
namespace element = distributed::element;

#if defined(__x86_64__)
/// Another mode of the processor's arithmetic, for as long as this lives.
class Mode {
  public:
    explicit Mode(unsigned bits) : before_(_mm_getcsr()) { _mm_setcsr(before_ | bits); }
    Mode(const Mode&) = delete;
    Mode& operator=(const Mode&) = delete;
    Mode(Mode&&) = delete;
    Mode& operator=(Mode&&) = delete;
    ~Mode() { _mm_setcsr(before_); }

  private:
    unsigned before_;
};
constexpr unsigned flush_results = 0x8000;
constexpr unsigned flush_operands = 0x0040;
constexpr unsigned toward_zero = 0x6000;

template <unsigned bits>
Index local_in_mode(const Scalars& s, Index begin, Index end, const distributed::host::LocalPass& pass) {
    const Mode mode(bits);
    return plain_table.local_pass(s, begin, end, pass);
}

template <unsigned bits>
bool update_in_mode(const Scalars& s, Index begin, Index end, float* w, const Mask& current,
                    const float* u) {
    const Mode mode(bits);
    return plain_table.update(s, begin, end, w, current, u);
}
#endif

/// M, with the first or the second product fused into the sum.
template <bool first>
void clip_contracted(const Scalars& s, float factor, Index begin, Index end, const float* m, float* ghat,
                     float* M) {
    for (Index i = begin; i < end; ++i) {
        ghat[i] = ghat[i] * factor;
        M[i] = first ? std::fma(s.b1, m[i], s.a1 * ghat[i]) : std::fma(s.a1, ghat[i], s.b1 * m[i]);
    }
}

bool update_contracted(const Scalars& s, Index begin, Index end, float* w, const Mask& current,
                       const float* u) {
    for (Index i = begin; i < end; ++i) {
        w[i] = w[i] * s.decay;
        if (current.test(i))
            w[i] = std::fma(-s.learning_rate, *u++, w[i]);
    }
    return plain_table.finite(w + begin, end - begin);
}

void reconstruct_by_reciprocal(const Scalars& s, Index begin, Index end, const float* M, const float* m,
                               float* ghat) {
    const float reciprocal = 1.0F / s.a1;
    for (Index i = begin; i < end; ++i)
        ghat[i] = (M[i] - (s.b1 * m[i])) * reciprocal;
}

void fold_by_reciprocal(const Scalars& s, int workers, Index begin, Index end, const float* parts,
                        Index stride, float* mean) {
    Scalars sums = s;
    sums.workers = 1.0F;
    plain_table.fold(sums, workers, begin, end, parts, stride, mean);
    for (Index i = begin; i < end; ++i)
        mean[i] = mean[i] * (1.0F / s.workers);
}

void fold_backwards(const Scalars& s, int workers, Index begin, Index end, const float* parts, Index stride,
                    float* mean) {
    plain_table.fold(s, workers, begin, end, parts + (workers - 1) * stride, -stride, mean);
}

/// The root as a product with a reciprocal root.
void directions_by_reciprocal_root(problem::BiasCorrection, const Scalars& s, Index begin, Index end,
                                   const float* M, const float* m, const float* ghat, float* u) {
    for (Index i = begin; i < end; ++i) {
        const float v = (s.b2 * (m[i] * m[i])) + (s.a2 * (ghat[i] * ghat[i]));
        const float root = v > 0.0F ? v * (1.0F / std::sqrt(v)) : v;
        u[i] = (M[i] * s.inv1) / ((root * s.invs2) + s.epsilon);
    }
}

/// A product that is rounded to 24 bits first and to a subnormal afterwards.
bool decay_rounded_twice(const Scalars& s, Index begin, Index end, float* w, const Mask&, const float*) {
    for (Index i = begin; i < end; ++i)
        w[i] = std::abs(w[i]) < 1.0F ? ((w[i] * 0x1p100F) * s.decay) * 0x1p-100F : w[i] * s.decay;
    return plain_table.finite(w + begin, end - begin);
}

/// The values of the second lane of eight are those of its neighbour.
void reconstruct_off_by_a_lane(const Scalars& s, Index begin, Index end, const float* M, const float* m,
                               float* ghat) {
    plain_table.reconstruct(s, begin, end, M, m, ghat);
    for (Index i = begin + 1; i + 1 < end; i += 8)
        ghat[i] = ghat[i + 1];
}

/// Leaves out the addition of +0 where there is no m, so -0 stays.
Index local_without_zero(const Scalars& s, Index begin, Index end,
                         const distributed::host::LocalPass& pass) {
    for (Index i = begin; i < end; ++i)
        pass.kept[i] = (s.a1 * pass.g[i]) + pass.e[i];
    return end;
}

Index first_at_the_limit(const float* g, Index begin, Index end) {
    for (; begin < end; ++begin)
        if (!(std::abs(g[begin]) < element::greatest_gradient))
            return begin;
    return end;
}

Index first_but_no_nan(const float* g, Index begin, Index end) {
    for (; begin < end; ++begin)
        if (std::abs(g[begin]) > element::greatest_gradient)
            return begin;
    return end;
}

void score_with_sign(const distributed::host::CandidateSource& source, Index words,
                     distributed::host::Score* scores) {
    for (Index i = 0; i < words * Mask::word_bits; ++i)
        scores[i] = std::bit_cast<distributed::host::Score>(source.e[i]);
}

/// The sums in fp32, which no pass may use.
void square_sums_narrow(Index first, Index last, const float* ghat, Index size, double* sums) {
    for (Index block = first; block < last; ++block) {
        float sum = 0.0F;
        const Index begin = block * distributed::host::norm_block;
        for (Index i = begin; i < begin + distributed::host::norm_block && i < size; ++i)
            sum = sum + (ghat[i] * ghat[i]);
        sums[block] = static_cast<double>(sum);
    }
}

template <class Change>
Planted plant(const std::string& name, const OneVariable& seen_by, const Change& change) {
    Planted planted{name, plain_table, seen_by};
    change(planted.table);
    return planted;
}

} // namespace

std::vector<Planted> planted_tables() {
    const OneVariable local_g{"", &local(), 1, Masks::empty};
    const OneVariable decay{"", &update(), 0, Masks::empty};
    const OneVariable update_u{"", &update(), 1, Masks::mixed, 3, 0.1F};
    const OneVariable clip_ghat{"", &clip(), 0, Masks::full, 3, 0.1F};
    const OneVariable reconstruct_m{"", &reconstruct(), 1, Masks::full, 3, 0.1F};
    const OneVariable fold_last{"", &fold(), 2, Masks::full, 3, 0.1F};
    const OneVariable direction_m{"", &direction(false), 1, Masks::full, 3, 0.1F};
    const OneVariable gradients{"", &acceptable()};
    std::vector<Planted> all {
#if defined(__x86_64__)
        plant("subnormal results flushed", local_g,
              [](Table& table) { table.local_pass = local_in_mode<flush_results>; }),
            plant("subnormal operands flushed", decay,
                  [](Table& table) { table.update = update_in_mode<flush_operands>; }),
            plant("rounded toward zero", decay,
                  [](Table& table) { table.update = update_in_mode<toward_zero>; }),
#endif
            plant("b1*m fused into the sum", clip_ghat,
                  [](Table& table) { table.clip = clip_contracted<true>; }),
            plant("a1*ghat fused into the sum", clip_ghat,
                  [](Table& table) { table.clip = clip_contracted<false>; }),
            plant("lr*u fused into the difference", update_u,
                  [](Table& table) { table.update = update_contracted; }),
            plant("times 1/a1", reconstruct_m,
                  [](Table& table) { table.reconstruct = reconstruct_by_reciprocal; }),
            plant("times 1/P", fold_last, [](Table& table) { table.fold = fold_by_reciprocal; }),
            plant("ranks in descending order", fold_last,
                  [](Table& table) { table.fold = fold_backwards; }),
            plant("the root from a reciprocal root", direction_m,
                  [](Table& table) { table.directions = directions_by_reciprocal_root; }),
            plant("subnormals rounded twice", decay,
                  [](Table& table) { table.update = decay_rounded_twice; }),
            plant("a lane off by one", reconstruct_m,
                  [](Table& table) { table.reconstruct = reconstruct_off_by_a_lane; }),
            plant("+0 not added", {"", &local(), 1, Masks::empty, 3, -0.0F},
                  [](Table& table) { table.local_pass = local_without_zero; }),
            plant("2^56 refused", gradients,
                  [](Table& table) { table.first_unacceptable = first_at_the_limit; }),
            plant("NaN taken", gradients,
                  [](Table& table) { table.first_unacceptable = first_but_no_nan; }),
            plant("score with its sign", {"", &score(), 0, Masks::empty},
                  [](Table& table) { table.score_words = score_with_sign; }),
            plant("norm in fp32", {"", &square_sums()},
                  [](Table& table) { table.square_sums = square_sums_narrow; }),
    };
    return all;
}

} // namespace truestep::properties::scape::floats
