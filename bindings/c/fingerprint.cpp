// Provides the C function that computes the fingerprint of a vector's values.
#include <string>
#include <vector>

#include <truestep/trace/fingerprint.hpp>

#include "outcome.hpp"
#include "values.hpp"

using truestep::abi::guarded;
using truestep::abi::need;

truestep_status truestep_fingerprint(const truestep_values* values, uint64_t begin, uint64_t* fingerprint) {
    return guarded([&] {
        need(values, "values");
        need(fingerprint, "fingerprint");
        std::vector<float> room;
        const std::span<const truestep_values> one(values, 1);
        *fingerprint =
            truestep::trace::fingerprint(truestep::abi::floats(one, values->count, room, "values"), begin);
    });
}
