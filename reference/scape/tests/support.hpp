#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>
#include <ios>
#include <random>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/reference/scape/scape.hpp>

namespace truestep::reference::scape {

using Scalars = ::testing::Types<float, double>;

/// The bits of a value. EXPECT_EQ takes -0 for +0 and no NaN for itself; bits do neither.
template <class T>
auto bits_of(T value) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return std::bit_cast<Bits>(value);
}

template <class T>
::testing::AssertionResult same_bits(T a, T b) {
    if (bits_of(a) == bits_of(b))
        return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure()
           << std::hexfloat << a << " (bits " << std::hex << bits_of(a) << ") against " << std::hexfloat
           << b << " (bits " << std::hex << bits_of(b) << ")";
}

template <class T>
::testing::AssertionResult same_bits(const Vector<T>& a, const Vector<T>& b) {
    if (a.size() != b.size())
        return ::testing::AssertionFailure() << a.size() << " values against " << b.size();
    for (Index index = 0; index < a.size(); ++index)
        if (auto result = same_bits(a[index], b[index]); !result)
            return result << " at index " << index << " of " << a.size();
    return ::testing::AssertionSuccess();
}

template <class T>
::testing::AssertionResult same_bits(const PerRank<T>& a, const PerRank<T>& b) {
    if (a.size() != b.size())
        return ::testing::AssertionFailure() << a.size() << " ranks against " << b.size();
    for (std::size_t rank = 0; rank < a.size(); ++rank)
        if (auto result = same_bits(a[rank], b[rank]); !result)
            return result << ", rank " << rank;
    return ::testing::AssertionSuccess();
}

template <class T>
::testing::AssertionResult same_bits(const ScapeState<T>& a, const ScapeState<T>& b) {
    if (a.step != b.step)
        return ::testing::AssertionFailure() << "step " << a.step << " against " << b.step;
    if (a.S != b.S)
        return ::testing::AssertionFailure() << "the coming masks differ";
    if (auto result = same_bits(a.w, b.w); !result)
        return result << ", in w";
    if (auto result = same_bits(a.m, b.m); !result)
        return result << ", in m";
    if (auto result = same_bits(a.e, b.e); !result)
        return result << ", in e";
    return ::testing::AssertionSuccess();
}

template <class T>
Vector<T> vector_of(std::initializer_list<T> values) {
    Vector<T> result(static_cast<Index>(values.size()));
    Index index = 0;
    for (const T value : values)
        result[index++] = value;
    return result;
}

/// Values of both signs below 1, of full precision; the same on every machine.
template <class T>
Vector<T> random_vector(std::mt19937_64& generator, Index size) {
    Vector<T> result(size);
    for (Index index = 0; index < size; ++index)
        result[index] = static_cast<T>(static_cast<std::int64_t>(generator())) * static_cast<T>(0x1p-63);
    return result;
}

/// The gradients of one step; every (step, rank) has its own.
template <class T>
PerRank<T> random_gradients(int workers, Index size, Index step) {
    PerRank<T> g;
    for (int rank = 0; rank < workers; ++rank) {
        std::mt19937_64 generator(static_cast<std::uint64_t>(step * 100 + rank));
        g.push_back(random_vector<T>(generator, size));
    }
    return g;
}

/// A problem in which everything rounds: three ranks, ranges that do not divide, a tensor that is
/// always dense, one that spans two ranks.
inline problem::Problem small_problem(const problem::HyperParameters& settings = {}, int workers = 3,
                                      problem::PartitionRule rule = problem::PartitionRule::by_shard) {
    return problem::make_problem(problem::Algorithm::scape, workers,
                                 problem::Layout({{"embedding", 21}, {"norm", 3, true}, {"head", 16}}),
                                 rule, settings);
}

template <class T>
Vector<T> small_parameters() {
    std::mt19937_64 generator(7);
    return random_vector<T>(generator, 40);
}

inline Coordinates all_coordinates(Index size) {
    Coordinates all(static_cast<std::size_t>(size));
    for (Index index = 0; index < size; ++index)
        all[static_cast<std::size_t>(index)] = index;
    return all;
}

/// The coordinates of [0, size) that S leaves out.
inline Coordinates complement(const Coordinates& S, Index size) {
    Coordinates result;
    for (Index index = 0; index < size; ++index)
        if (!std::binary_search(S.begin(), S.end(), index))
            result.push_back(index);
    return result;
}

constexpr problem::BiasCorrection all_corrections[] = {
    problem::BiasCorrection::none, problem::BiasCorrection::adam, problem::BiasCorrection::momentum};

} // namespace truestep::reference::scape
