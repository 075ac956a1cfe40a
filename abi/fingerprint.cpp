#include <string>
#include <vector>

#include <scape/trace/fingerprint.hpp>

#include "outcome.hpp"
#include "values.hpp"

using scape::abi::guarded;
using scape::abi::need;

scape_status scape_fingerprint(const scape_values* values, uint64_t begin, uint64_t* fingerprint) {
    return guarded([&] {
        need(values, "values");
        need(fingerprint, "fingerprint");
        std::vector<float> room;
        const std::span<const scape_values> one(values, 1);
        *fingerprint =
            scape::trace::fingerprint(scape::abi::floats(one, values->count, room, "values"), begin);
    });
}
