#include "assertions.hpp"

#include <span>

#include <scape/verify/comparator.hpp>

namespace scape::properties {

namespace {

std::span<const float> values(const Vector<float>& x) {
    return {x.data(), static_cast<std::size_t>(x.size())};
}

double sum_over_ranks(const PerRank<float>& x, Index index) {
    double sum = 0.0;
    for (const Vector<float>& of_rank : x)
        sum += static_cast<double>(of_rank[index]);
    return sum;
}

} // namespace

void assert_same_bits(const std::string& what, const Case& run, const Vector<float>& expected,
                      const Vector<float>& actual) {
    const auto comparison = verify::compare(values(expected), values(actual), verify::Level::exact());
    if (!comparison.ok())
        RC_FAIL(what + ": " + verify::summary(comparison) + '\n' +
                verify::details(comparison, problem::Layout(run.tensors), "    "));
}

void assert_same_bits(const std::string& what, const Case& run, const PerRank<float>& expected,
                      const PerRank<float>& actual) {
    RC_ASSERT(expected.size() == actual.size());
    for (std::size_t rank = 0; rank < expected.size(); ++rank)
        assert_same_bits(what + " of rank " + std::to_string(rank), run, expected[rank], actual[rank]);
}

void assert_same_bits(const std::string& what, const Case& run, const ScapeState<float>& expected,
                      const ScapeState<float>& actual) {
    RC_ASSERT(expected.step == actual.step);
    RC_ASSERT(expected.S == actual.S);
    assert_same_bits(what + ", w", run, expected.w, actual.w);
    assert_same_bits(what + ", m", run, expected.m, actual.m);
    assert_same_bits(what + ", e", run, expected.e, actual.e);
}

void assert_conserved(const Case& run, const ScapeState<float>& before, const PerRank<float>& g,
                      const ScapeState<float>& after) {
    const double b1 = run.betas.first;
    const double a1 = 1.0 - b1;
    for (Index index = 0; index < run.size(); ++index) {
        const double went_in = run.workers * b1 * static_cast<double>(before.m[index]) +
                               a1 * sum_over_ranks(g, index) + sum_over_ranks(before.e, index);
        const double came_out =
            run.workers * static_cast<double>(after.m[index]) + sum_over_ranks(after.e, index);
        ASSERT_AT(after.step, index, came_out == went_in);
    }
}

} // namespace scape::properties
