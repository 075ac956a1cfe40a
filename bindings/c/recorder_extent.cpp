// Cuts vectors and masks to the sample that a recorder holds, and puts them into its spool.
#include "recorder_extent.hpp"

#include <cstddef>
#include <cstdint>

#include "values.hpp"

namespace truestep::abi {

using problem::Index;

std::vector<float> cut(std::span<const float> whole, const std::vector<problem::Range>& held) {
    std::vector<float> part;
    for (const problem::Range& range : held)
        part.insert(part.end(), whole.begin() + range.begin, whole.begin() + range.end);
    return part;
}

namespace {

std::vector<std::uint8_t> cut(std::span<const std::uint8_t> whole,
                              const std::vector<problem::Range>& held) {
    std::vector<std::uint8_t> part;
    std::size_t at = 0;
    for (const problem::Range& range : held)
        for (Index i = range.begin; i < range.end; ++i, ++at) {
            if (at % 8 == 0)
                part.push_back(0);
            const unsigned bit =
                (whole[static_cast<std::size_t>(i / 8)] >> static_cast<unsigned>(i % 8)) & 1U;
            part.back() = static_cast<std::uint8_t>(part.back() | (bit << static_cast<unsigned>(at % 8)));
        }
    return part;
}

} // namespace

Spool::Place put(Spool& spool, std::span<const truestep_values> given,
                 const std::vector<problem::Range>& held, Index whole, bool is_mask,
                 const std::string& what) {
    Index part = 0;
    for (const problem::Range& range : held)
        part += range.size();
    Index count = 0;
    for (const truestep_values& values : given)
        count += values.count;
    const bool is_part = count == (is_mask ? (part + 7) / 8 : part);
    const Index size = is_part ? part : whole;
    if (is_mask) {
        const auto all = bits(given.size() == 1 ? given[0] : truestep_values{}, size, what);
        return is_part ? spool.put(std::as_bytes(all))
                       : spool.put(std::as_bytes(std::span<const std::uint8_t>(cut(all, held))));
    }
    std::vector<float> room;
    const auto all = floats(given, size, room, what);
    return is_part ? spool.put(std::as_bytes(all))
                   : spool.put(std::as_bytes(std::span<const float>(cut(all, held))));
}

} // namespace truestep::abi
