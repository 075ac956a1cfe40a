// Defines each pass of a step as an operation: its host kernel and the oracle's formula.
#include "operations.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "oracle.hpp"

namespace truestep::properties::scape::floats {

namespace {

using problem::BiasCorrection;

Number given(const Batch& batch, int column, Index index) {
    return exactly(batch.input(column)[index]);
}

void host_local(const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    const Mask& last = place.last(batch.masks);
    const Mask& current = place.current(batch.masks);
    float* const residual = outcome.output(1);
    std::copy_n(batch.input(2), batch_size, residual);
    table.local_pass(batch.scalars, 0, batch_size,
                     {.g = batch.input(1),
                      .e = residual,
                      .kept = residual,
                      .last = last,
                      .m = place.pack(last, batch.input(0)),
                      .current = current,
                      .payload = place.payload.data()});
}

/// c, wherever the pass has put it; the residual is in the other output.
void gather(ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    const Mask& current = place.current(batch.masks);
    const float* packed = place.payload.data();
    for (Index i = 0; i < batch_size; ++i)
        outcome.output(0)[i] = current.test(i) ? *packed++ : outcome.output(1)[i];
}

void oracle_local(const ThreadBuffers& place, const Batch& batch, Index i, float* outputs) {
    const Number m = place.last(batch.masks).test(i) ? given(batch, 0, i) : exactly(0.0F);
    outputs[0] = oracle::local(batch.scalars, m, given(batch, 1, i), given(batch, 2, i)).value;
    outputs[1] = place.current(batch.masks).test(i) ? 0.0F : outputs[0];
}

void oracle_fold(const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
    std::array<Number, most_inputs> parts;
    for (int rank = 0; rank < batch.workers; ++rank)
        parts[static_cast<std::size_t>(rank)] = given(batch, rank, i);
    outputs[0] = oracle::mean(batch.scalars, parts.data(), batch.workers).value;
}

void oracle_clip(const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
    const Number clipped = given(batch, 0, i) * exactly(batch.factor);
    outputs[0] = clipped.value;
    outputs[1] = oracle::moment(batch.scalars, given(batch, 1, i), clipped).value;
}

template <bool momentum>
void host_direction(const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
    table.directions(momentum ? BiasCorrection::momentum : BiasCorrection::adam, batch.scalars, 0,
                     batch_size, batch.input(0), batch.input(1), batch.input(2), outcome.output(0));
}

template <bool momentum>
void oracle_direction(const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
    outputs[0] = oracle::direction(batch.scalars, momentum, given(batch, 0, i), given(batch, 1, i),
                                   given(batch, 2, i))
                     .value;
}

void host_update(const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    const Mask& current = place.current(batch.masks);
    std::copy_n(batch.input(0), batch_size, outcome.output(0));
    outcome.finite = table.update(batch.scalars, 0, batch_size, outcome.output(0), current,
                                  place.pack(current, batch.input(1)));
}

void oracle_update(const ThreadBuffers& place, const Batch& batch, Index i, float* outputs) {
    const bool selected = place.current(batch.masks).test(i);
    // Untouched values keep their bits, as the product with 1 does.
    const Number w = oracle::decayed(batch.scalars, given(batch, 0, i));
    outputs[0] = selected ? oracle::update(batch.scalars, w, given(batch, 1, i)).value : w.value;
}

template <bool momentum>
void host_dense(const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
    std::copy_n(batch.input(1), batch_size, outcome.output(0));
    std::copy_n(batch.input(2), batch_size, outcome.output(1));
    outcome.finite = table.dense(momentum ? BiasCorrection::momentum : BiasCorrection::adam, batch.scalars,
                                 batch_size, batch.input(0), outcome.output(0), outcome.output(1));
}

template <bool momentum>
void oracle_dense(const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
    const Scalars& s = batch.scalars;
    const Number g = given(batch, 0, i);
    const Number m = given(batch, 1, i);
    const Number M = oracle::moment(s, m, g);
    const Number u = oracle::direction(s, momentum, M, m, g);
    outputs[0] = M.value;
    outputs[1] = oracle::update(s, oracle::decayed(s, given(batch, 2, i)), u).value;
}

template <bool momentum, bool clipping>
void host_end(const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    const Scalars& s = batch.scalars;
    float* const M = outcome.output(0);
    float* const ghat = place.scratch.data();
    std::copy_n(batch.input(0), batch_size, M);
    std::copy_n(batch.input(2), batch_size, outcome.output(1));
    table.reconstruct(s, 0, batch_size, M, batch.input(1), ghat);
    if (clipping)
        table.clip(s, batch.factor, 0, batch_size, batch.input(1), ghat, M);
    table.directions(momentum ? BiasCorrection::momentum : BiasCorrection::adam, s, 0, batch_size, M,
                     batch.input(1), ghat, ghat);
    outcome.finite = table.update(s, 0, batch_size, outcome.output(1), place.current(Masks::full), ghat);
}

template <bool momentum, bool clipping>
void oracle_end(const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
    const Scalars& s = batch.scalars;
    Number M = given(batch, 0, i);
    const Number m = given(batch, 1, i);
    Number ghat = oracle::reconstruct(s, M, m);
    if (clipping) {
        ghat = ghat * exactly(batch.factor);
        M = oracle::moment(s, m, ghat);
    }
    const Number u = oracle::direction(s, momentum, M, m, ghat);
    outputs[0] = M.value;
    outputs[1] = oracle::update(s, oracle::decayed(s, given(batch, 2, i)), u).value;
}

template <bool momentum, bool clipping>
const Operation& end() {
    static const Operation operation{std::string("end of step, ") + (momentum ? "momentum" : "adam") +
                                         (clipping ? ", clipped" : ""),
                                     3,
                                     2,
                                     false,
                                     host_end<momentum, clipping>,
                                     [](ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
                                         on_device::end_of_step(place, batch, outcome, momentum, clipping);
                                     },
                                     oracle_end<momentum, clipping>};
    return operation;
}

void host_score(const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
    constexpr Index words = batch_size / Mask::word_bits; // the pass takes whole ones
    constexpr Index whole = words * Mask::word_bits;
    const Mask& current = place.current(batch.masks);
    const float* values = batch.input(0);
    std::array<distributed::host::Score, static_cast<std::size_t>(whole)> scores{};
    table.score_words({values, current.words(), place.pack(current, values)}, words, scores.data());
    std::memcpy(outcome.output(0), scores.data(), sizeof scores);
    for (Index i = whole; i < batch_size; ++i)
        outcome.output(0)[i] = std::bit_cast<float>(distributed::element::score(values[i]));
}

void host_acceptable(const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
    const float* g = batch.input(0);
    std::fill_n(outcome.output(0), batch_size, 1.0F);
    // Refused values mostly follow one another, so after one the pass gets little at a time.
    constexpr Index little = 16;
    Index length = batch_size;
    for (Index next = 0; next < batch_size;) {
        const Index end = std::min(next + length, batch_size);
        const Index at = table.first_unacceptable(g, next, end);
        length = at < end ? little : batch_size;
        if (at < end)
            outcome.output(0)[at] = 0.0F;
        next = at < end ? at + 1 : end;
    }
}

void host_finite(const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
    constexpr Index together = 64;
    const float* values = batch.input(0);
    std::fill_n(outcome.output(0), batch_size, 1.0F);
    if (table.finite(values, batch_size))
        return;
    std::array<float, static_cast<std::size_t>(together)> among{};
    for (Index i = 0; i < batch_size; ++i) {
        float& one = among[static_cast<std::size_t>(i % together)];
        one = values[i];
        outcome.output(0)[i] = table.finite(among.data(), together) ? 1.0F : 0.0F;
        one = 0.0F;
    }
}

constexpr Index norm_blocks =
    (batch_size + distributed::host::norm_block - 1) / distributed::host::norm_block;

void store_sum(double sum, float& upper, float& lower) {
    const auto bits = std::isnan(sum) ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(sum);
    upper = std::bit_cast<float>(static_cast<Bits>(bits >> 32U));
    lower = std::bit_cast<float>(static_cast<Bits>(bits));
}

} // namespace

void store_sums(const std::vector<double>& sums, Outcome& outcome) {
    std::fill_n(outcome.output(0), batch_size, 0.0F);
    std::fill_n(outcome.output(1), batch_size, 0.0F);
    for (std::size_t block = 0; block < sums.size(); ++block)
        store_sum(sums[block], outcome.output(0)[block], outcome.output(1)[block]);
}

const Operation& local() {
    static const Operation operation{
        "local",
        3,
        2,
        false,
        [](const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
            host_local(table, place, batch, outcome);
            gather(place, batch, outcome);
        },
        [](ThreadBuffers& place, const Batch& batch, Outcome& outcome) {
            on_device::local(place, batch, outcome);
            gather(place, batch, outcome);
        },
        oracle_local};
    return operation;
}

const Operation& fold() {
    static const Operation operation{
        "fold",
        most_inputs,
        1,
        false,
        [](const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
            table.fold(batch.scalars, batch.workers, 0, batch_size, batch.input(0), batch_size,
                       outcome.output(0));
        },
        on_device::fold,
        oracle_fold};
    return operation;
}

const Operation& reconstruct() {
    static const Operation operation{
        "reconstruct",
        2,
        1,
        false,
        [](const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
            table.reconstruct(batch.scalars, 0, batch_size, batch.input(0), batch.input(1),
                              outcome.output(0));
        },
        nullptr,
        [](const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
            outputs[0] = oracle::reconstruct(batch.scalars, given(batch, 0, i), given(batch, 1, i)).value;
        }};
    return operation;
}

const Operation& clip() {
    static const Operation operation{
        "clip and moment",
        2,
        2,
        false,
        [](const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
            std::copy_n(batch.input(0), batch_size, outcome.output(0));
            table.clip(batch.scalars, batch.factor, 0, batch_size, batch.input(1), outcome.output(0),
                       outcome.output(1));
        },
        nullptr,
        oracle_clip};
    return operation;
}

const Operation& direction(bool momentum) {
    static const Operation adam{"direction, adam",      3, 1, false, host_direction<false>, nullptr,
                                oracle_direction<false>};
    static const Operation other{"direction, momentum", 3, 1, false, host_direction<true>, nullptr,
                                 oracle_direction<true>};
    return momentum ? other : adam;
}

const Operation& update() {
    static const Operation operation{"decay and update", 2, 1, false, host_update, nullptr, oracle_update};
    return operation;
}

const Operation& dense(bool momentum) {
    static const Operation adam{"dense, adam",      3, 2, false, host_dense<false>, nullptr,
                                oracle_dense<false>};
    static const Operation other{"dense, momentum", 3, 2, false, host_dense<true>, nullptr,
                                 oracle_dense<true>};
    return momentum ? other : adam;
}

const Operation& end_of_step(bool momentum, bool clipping) {
    if (momentum)
        return clipping ? end<true, true>() : end<true, false>();
    return clipping ? end<false, true>() : end<false, false>();
}

const Operation& score() {
    static const Operation operation{"score",
                                     1,
                                     1,
                                     true,
                                     host_score,
                                     nullptr,
                                     [](const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
                                         const auto bits = std::bit_cast<Bits>(batch.input(0)[i]);
                                         outputs[0] = std::bit_cast<float>(
                                             bits >= 0x8000'0000U ? bits - 0x8000'0000U : bits);
                                     }};
    return operation;
}

const Operation& acceptable() {
    static const Operation operation{"acceptable",
                                     1,
                                     1,
                                     true,
                                     host_acceptable,
                                     on_device::acceptable,
                                     [](const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
                                         const Bits magnitude =
                                             std::bit_cast<Bits>(batch.input(0)[i]) % 0x8000'0000U;
                                         constexpr Bits greatest = (127U + 56U) << 23U;
                                         outputs[0] = magnitude <= greatest ? 1.0F : 0.0F;
                                     }};
    return operation;
}

const Operation& finite() {
    static const Operation operation{
        "finite",
        1,
        1,
        true,
        host_finite,
        nullptr,
        [](const ThreadBuffers&, const Batch& batch, Index i, float* outputs) {
            outputs[0] = (std::bit_cast<Bits>(batch.input(0)[i]) >> 23U) % 256 == 255 ? 0.0F : 1.0F;
        }};
    return operation;
}

const Operation& square_sums() {
    static const Operation operation{
        "norm's block sums",
        1,
        2,
        true,
        [](const Table& table, ThreadBuffers&, const Batch& batch, Outcome& outcome) {
            std::vector<double> sums(static_cast<std::size_t>(norm_blocks));
            table.square_sums(0, norm_blocks, batch.input(0), batch_size, sums.data());
            store_sums(sums, outcome);
        },
        on_device::square_sums,
        [](const ThreadBuffers&, const Batch& batch, Index block, float* outputs) {
            constexpr Index norm_block = distributed::host::norm_block;
            const Index begin = block * norm_block;
            store_sum(oracle::square_sum(batch.input(0) + begin,
                                         static_cast<int>(std::min(norm_block, batch_size - begin))),
                      outputs[0], outputs[1]);
        },
        norm_blocks};
    return operation;
}

} // namespace truestep::properties::scape::floats
