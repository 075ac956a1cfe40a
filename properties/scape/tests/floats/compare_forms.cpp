// Runs every form of a pass on batches of inputs, compares the bits, and tallies differences.
#include "compare_forms.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

namespace truestep::properties::scape::floats {

namespace {

void compute(const Operation& operation, const Form& form, ThreadBuffers& place, const Batch& batch,
             Outcome& outcome) {
    outcome.finite = true;
    if (form.table != nullptr)
        operation.host(*form.table, place, batch, outcome);
    else
        operation.device(place, batch, outcome);
}

std::string in_words(const Operation& operation, const Batch& batch, Index at, const std::string& who,
                     float value, const std::string& other, float expected) {
    char text[64];
    const auto bits = [&text](float number) {
        static_cast<void>(
            std::snprintf(text, sizeof text, "0x%08x", static_cast<unsigned>(std::bit_cast<Bits>(number))));
        return std::string(text);
    };
    std::string result = operation.name + "(";
    for (int column = 0; column < operation.inputs; ++column)
        result += (column == 0 ? "" : ", ") + bits(batch.input(column)[at]);
    return result + "): " + who + " " + bits(value) + ", " + other + " " + bits(expected);
}

void compare_outcomes(const Operation& operation, const Batch& batch, const Form& base,
                      const Outcome& expected, const Form& form, const Outcome& actual, Tally& tally) {
    for (int output = 0; output < operation.outputs; ++output) {
        const float* a = expected.output(output);
        const float* b = actual.output(output);
        if (std::memcmp(a, b, batch_size * sizeof(float)) == 0)
            continue;
        for (Index i = 0; i < batch_size; ++i) {
            if (same(operation, a[i], b[i]))
                continue;
            if (tally.differing++ == 0)
                tally.first = in_words(operation, batch, i, form.name, b[i], base.name, a[i]);
        }
    }
    if (expected.finite == actual.finite)
        return;
    if (tally.differing++ == 0)
        tally.first = operation.name + ": whether all is finite, " + base.name + " and " + form.name +
                      " do not agree";
}

void ask_oracle(const Operation& operation, const ThreadBuffers& place, const Batch& batch,
                const Form& form, const Outcome& actual, std::uint64_t begin, std::uint64_t stride,
                Tally& tally) {
    float expected[most_outputs] = {};
    for (auto i = static_cast<Index>(begin % stride); i < operation.oracle_values;
         i += static_cast<Index>(stride)) {
        operation.oracle(place, batch, i, expected);
        ++tally.judged;
        for (int output = 0; output < operation.outputs; ++output)
            if (!same(operation, actual.output(output)[i], expected[output]) && tally.wrong++ == 0)
                tally.first = in_words(operation, batch, i, form.name, actual.output(output)[i], "oracle",
                                       expected[output]);
    }
}

} // namespace

std::vector<Form> all_forms() {
    namespace host = distributed::host;
    std::vector<Form> result;
    for (const host::Variant variant : host::supported_variants())
        result.push_back({std::string(host::name(variant)), &host::table_of(variant)});
    result.push_back({"device form", nullptr});
    return result;
}

bool same(const Operation& operation, float a, float b) {
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) ||
           (!operation.keeps_nan && std::isnan(a) && std::isnan(b));
}

void Tally::add(const Tally& other) {
    values += other.values;
    differing += other.differing;
    judged += other.judged;
    wrong += other.wrong;
    if (first.empty())
        first = other.first;
}

Tally compare(const Run& run, const std::vector<Form>& forms, int threads) {
    Tally total;
    std::mutex mutex;
    const Operation& operation = *run.operation;
    in_parallel(run.batches, threads, [&](ThreadBuffers& place, std::uint64_t number) {
        thread_local Batch batch;
        thread_local Outcome base;
        thread_local Outcome other;
        Tally tally;
        run.source(number, batch);
        tally.values = batch_size;
        compute(operation, forms.front(), place, batch, base);
        for (std::size_t i = 1; i < forms.size(); ++i) {
            if (forms[i].table == nullptr && operation.device == nullptr)
                continue;
            compute(operation, forms[i], place, batch, other);
            compare_outcomes(operation, batch, forms.front(), base, forms[i], other, tally);
        }
        if (run.oracle_stride != 0)
            ask_oracle(operation, place, batch, forms.front(), base, number, run.oracle_stride, tally);
        const std::lock_guard lock(mutex);
        total.add(tally);
    });
    return total;
}

void in_parallel(std::uint64_t count, int threads,
                 const std::function<void(ThreadBuffers& place, std::uint64_t number)>& work) {
    std::atomic<std::uint64_t> next = 0;
    std::exception_ptr failure;
    std::mutex mutex;
    const auto each = [&] {
        try {
            ThreadBuffers place;
            for (std::uint64_t number = next++; number < count; number = next++)
                work(place, number);
        } catch (...) {
            const std::lock_guard lock(mutex);
            failure = std::current_exception();
            next = count;
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i)
        others.emplace_back(each);
    each();
    for (std::thread& other : others)
        other.join();
    if (failure)
        std::rethrow_exception(failure);
}

std::string head() {
    return "what                                         inputs   differing      judged       wrong\n";
}

std::string row(const std::string& name, const Tally& tally) {
    char text[200];
    static_cast<void>(std::snprintf(
        text, sizeof text, "%-38s %12llu %11llu %11llu %11llu\n", name.c_str(),
        static_cast<unsigned long long>(tally.values), static_cast<unsigned long long>(tally.differing),
        static_cast<unsigned long long>(tally.judged), static_cast<unsigned long long>(tally.wrong)));
    return text + (tally.first.empty() ? "" : "    " + tally.first + "\n");
}

} // namespace truestep::properties::scape::floats
