// Compares MAPL's passes and steps with the bare matrix products of the same shapes, by the same
// library. Both take turns in one process, since machines are shared and noisy. The result is the
// ratio of the processor times that the quickest tenth of either takes at most. One thread.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include <truestep/distributed/mapl/codec.hpp>
#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/distributed/mapl/products.hpp>
#include <truestep/distributed/mapl/spel_step.hpp>
#include <truestep/problem/mapl/quantization.hpp>

#include "benchmark_out.hpp"
#include "measure.hpp"

namespace {

using namespace truestep::distributed::mapl;
using namespace truestep::problem::mapl;
using truestep::quantile;
using truestep::bench::take_turns;
using truestep::bench::TimeOverFloor;

constexpr std::size_t vocabulary = 32000;

Floats some(std::size_t count, double step) {
    Floats values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(std::sin(step * static_cast<double>(i % 100003)));
    return values;
}

/// Values near codewords, so that every codeword is near some of them.
Floats near_to(const Floats& books, std::size_t tokens, std::size_t width) {
    const std::size_t words = books.size() / width;
    std::mt19937_64 random(1);
    std::normal_distribution<float> normal(0.0F, 0.1F);
    Floats values(tokens * width);
    for (std::size_t token = 0; token < tokens; ++token)
        for (std::size_t i = 0; i < width; ++i)
            values[token * width + i] = books[token * 7919 % words * width + i] + normal(random);
    return values;
}

/// `flops`: those of the products.
void report(benchmark::State& state, const TimeOverFloor& seconds, double flops) {
    truestep::bench::report_time(state, seconds.action);
    const double floor = quantile(seconds.floor, 0.1);
    state.counters["share_of_products"] = floor / quantile(seconds.action, 0.1);
    state.counters["share_of_median"] = 1.0 / seconds.ratio();
    state.counters["products_Gflop/s"] = flops / floor * 1e-9;
}

/// A micro-batch of N tokens at a boundary, for both sides of a comparison.
struct Batch {
    std::size_t tokens;
    std::size_t width;
    std::size_t rank;
    Floats x = some(tokens * width, 0.37);
    Floats q = x;
    Floats xhat = x;
    Floats a = some(width * rank, 0.11);
    Floats rows = some(rank * width, 0.13);
    Floats table = some(vocabulary * rank, 0.17);
    Floats gathered = some(tokens * rank, 0.19);
    Floats z = gathered;
    std::vector<Id> ids = std::vector<Id>(tokens);

    explicit Batch(const benchmark::State& state)
        : tokens(static_cast<std::size_t>(state.range(0))), width(static_cast<std::size_t>(state.range(1))),
          rank(static_cast<std::size_t>(state.range(2))) {
        for (std::size_t token = 0; token < tokens; ++token)
            ids[token] = static_cast<Id>(token * 7919 % vocabulary);
    }

    [[nodiscard]] SideMatrices side(bool anchored) const {
        return {width,
                rank,
                vocabulary,
                a.data(),
                anchored ? table.data() : nullptr,
                anchored ? rows.data() : nullptr};
    }
    /// E[ids] P, from rows that have been gathered.
    void anchor_product(float* to, bool keep) const {
        multiply({.rows = tokens, .columns = width, .inner = rank, .keep = keep}, gathered.data(),
                 rows.data(), to);
    }
    void bare(bool anchored) {
        if (anchored)
            anchor_product(q.data(), false);
        multiply({.rows = tokens, .columns = rank, .inner = width}, anchored ? q.data() : x.data(),
                 a.data(), z.data());
        multiply({.rows = tokens, .columns = width, .inner = rank, .second_transposed = true}, z.data(),
                 a.data(), xhat.data());
        if (anchored)
            anchor_product(xhat.data(), true);
    }
    [[nodiscard]] double flops(bool anchored) const {
        return (anchored ? 8.0 : 4.0) * static_cast<double>(tokens * width * rank);
    }
};

/// `keeps`: Q is kept for the way back, as by a Sender.
void through(benchmark::State& state, bool anchored, bool keeps) {
    Batch batch(state);
    const SideMatrices side = batch.side(anchored);
    const TimeOverFloor seconds = take_turns(
        state, [&] { batch.bare(anchored); },
        [&] {
            compress(side, batch.ids, batch.x.data(), keeps ? batch.q.data() : nullptr, batch.z.data());
            if (!all_finite(batch.z))
                state.SkipWithError("ERROR: z is not finite");
            decompress(side, batch.ids, batch.z.data(), batch.xhat.data());
        });
    report(state, seconds, batch.flops(anchored));
}

void without_anchors(benchmark::State& state) {
    through(state, false, false);
}
void without_anchors_kept(benchmark::State& state) {
    through(state, false, true);
}
void two_anchors(benchmark::State& state) {
    through(state, true, true);
}

/// The products of one iteration of a polynomial.
struct Iteration {
    std::size_t width;
    std::size_t rank;
    Floats x;
    Floats square = Floats(rank * rank);
    Floats inner = square;
    Floats made = x;

    void bare() {
        multiply({.rows = rank, .columns = rank, .inner = width, .first_transposed = true}, x.data(),
                 x.data(), square.data());
        multiply({.rows = rank, .columns = rank, .inner = rank}, square.data(), square.data(),
                 inner.data());
        multiply({.rows = width, .columns = rank, .inner = rank}, x.data(), inner.data(), made.data());
    }
};

template <class Action>
void iterations(benchmark::State& state, int count, const Action& action) {
    const Settings settings{.width = state.range(0), .rank = state.range(1)};
    const Floats start = first_subspace(settings.width, settings.rank, 1);
    Iteration one{static_cast<std::size_t>(settings.width), static_cast<std::size_t>(settings.rank), start};
    Floats x;
    const TimeOverFloor seconds = take_turns(
        state,
        [&] {
            x = start; // a copy that the action needs only here
            for (int i = 0; i < count; ++i)
                one.bare();
        },
        [&] {
            x = start;
            action(settings, x);
        });
    const auto d = static_cast<double>(settings.width);
    const auto r = static_cast<double>(settings.rank);
    report(state, seconds, count * (4.0 * d * r * r + 2.0 * r * r * r));
}

void polar_row(benchmark::State& state) {
    iterations(state, Settings{}.direction_iterations, polar_in_place);
}
void retract_row(benchmark::State& state) {
    iterations(state, Settings{}.retraction_iterations, retract_in_place);
}

/// The sender's work for one codebook, compared with the bare product of the same shape: N vectors
/// of w = r / Gr values and K codewords. It chooses, learns, and makes the indices; no book is
/// streamed.
void encode(benchmark::State& state) {
    const auto tokens = static_cast<std::size_t>(state.range(0));
    const auto width = static_cast<std::size_t>(state.range(1));
    const auto words = static_cast<std::size_t>(state.range(2));
    Settings settings{.width = state.range(1), .rank = state.range(1)};
    settings.quantization.codewords = state.range(2);
    const Floats books = first_codebooks(settings);
    const Floats z = near_to(books, tokens, width);
    // The product in pieces that fit into the cache, where the library is fastest.
    constexpr std::size_t piece = 128;
    Floats scores(piece * words);
    Floats learned = books;
    Codec codec(settings);
    std::vector<Word> indices;
    const TimeOverFloor seconds = take_turns(
        state,
        [&] {
            for (std::size_t first = 0; first < tokens; first += piece)
                multiply({.rows = piece, .columns = words, .inner = width, .second_transposed = true},
                         z.data() + first * width, books.data(), scores.data());
        },
        [&] { indices = codec.encode(z, books, learned); });
    if (std::ranges::count(indices, indices.front()) == static_cast<std::ptrdiff_t>(tokens))
        state.SkipWithError("ERROR: all tokens have one codeword");
    report(state, seconds, 2.0 * static_cast<double>(tokens * words * width));
}

void shapes_of_batches(benchmark::internal::Benchmark* rows) {
    rows->ArgNames({"N", "D", "r"})->ArgsProduct({{4096}, {1024, 2048, 4096}, {40, 64, 256}});
}
void shapes_of_codebooks(benchmark::internal::Benchmark* rows) {
    rows->ArgNames({"N", "w", "K"})->ArgsProduct({{4096}, {8, 16, 64, 256}, {256, 1024, 4096}});
}
void shapes_of_subspaces(benchmark::internal::Benchmark* rows) {
    rows->ArgNames({"D", "r"})->ArgsProduct({{1024, 2048, 4096}, {40, 64, 256}});
}

} // namespace

BENCHMARK(without_anchors)->Apply(shapes_of_batches)->UseManualTime();
BENCHMARK(without_anchors_kept)->Apply(shapes_of_batches)->UseManualTime();
BENCHMARK(two_anchors)->Apply(shapes_of_batches)->UseManualTime();
BENCHMARK(polar_row)->Name("polar")->Apply(shapes_of_subspaces)->UseManualTime();
BENCHMARK(retract_row)->Name("retract")->Apply(shapes_of_subspaces)->UseManualTime();

BENCHMARK(encode)->Apply(shapes_of_codebooks)->UseManualTime();

int main(int argc, char** argv) {
    one_thread_unless_asked();
    truestep::bench::add_benchmark_context();
    benchmark::AddCustomContext("products", std::string(products_by()));
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
