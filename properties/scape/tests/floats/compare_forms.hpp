// Compares the forms of a pass with each other and with the oracle.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "operations.hpp"

namespace truestep::properties::scape::floats {

/// The code that computes: a table of the host's kernels, or, if there is none, a device's blocks.
struct Form {
    std::string name;
    const Table* table = nullptr;
};
/// The forms of this machine, the plain one first.
[[nodiscard]] std::vector<Form> all_forms();

/// Whether the bits are the same. NaNs made by arithmetic are equal: IEEE 754 does not define which
/// operand's payload and sign remain, and compilers exchange operands.
[[nodiscard]] bool same(const Operation& operation, float a, float b);

struct Tally {
    std::uint64_t values = 0;    ///< inputs, which all went through all forms
    std::uint64_t differing = 0; ///< outputs in which a form differed from the first
    std::uint64_t judged = 0;    ///< inputs that the oracle saw
    std::uint64_t wrong = 0;     ///< outputs in which the first form differed from the oracle
    std::string first;           ///< what differed first, in words
    [[nodiscard]] bool ok() const { return values > 0 && differing == 0 && wrong == 0; }
    void add(const Tally& other);
};

/// Fills batch `number`: inputs, scalars, masks.
using Source = std::function<void(std::uint64_t number, Batch& batch)>;

struct Run {
    const Operation* operation = nullptr;
    Source source;
    std::uint64_t batches = 0;
    std::uint64_t oracle_stride = 1; ///< the oracle judges one value in so many; 0: none
};

/// Runs over several threads; the order of the batches does not matter.
[[nodiscard]] Tally compare(const Run& run, const std::vector<Form>& forms, int threads);

/// Calls work(place, number) for all numbers below `count`.
void in_parallel(std::uint64_t count, int threads,
                 const std::function<void(ThreadBuffers& place, std::uint64_t number)>& work);

/// A row of a report, and its head.
[[nodiscard]] std::string head();
[[nodiscard]] std::string row(const std::string& name, const Tally& tally);

} // namespace truestep::properties::scape::floats
