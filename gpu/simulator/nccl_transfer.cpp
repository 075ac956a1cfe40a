// Moves and adds the data of a match, once all participants have come.
#include <algorithm>
#include <cstring>

#include <truestep/simulator/fault.hpp>

#include "nccl_exchange.hpp"
#include "nccl_values.hpp"

namespace truestep::simulator::nccl {

namespace {

/// The bytes at an address of the device, which are in flight for this exchange.
std::uint8_t* place(const void* at, std::size_t bytes, bool write) {
    const auto begin = reinterpret_cast<std::uint64_t>(at);
    Allocation* const allocation = Device::get().memory().find(begin);
    if (allocation == nullptr || !allocation->holds(begin, bytes))
        throw Fault("NCCL: memory that was freed while it was in flight");
    if (write && allocation->written.kept())
        allocation->written.write(begin - allocation->base, bytes);
    return allocation->bytes(begin);
}

void move(void* to, const void* from, std::size_t bytes) {
    if (bytes > 0)
        std::memmove(place(to, bytes, true), place(from, bytes, false), bytes);
}

std::byte* part(void* all, std::size_t number, std::size_t bytes) {
    return static_cast<std::byte*>(all) + number * bytes;
}
const std::byte* part(const void* all, std::size_t number, std::size_t bytes) {
    return static_cast<const std::byte*>(all) + number * bytes;
}

/// The sum over all sends of the part that begins at `offset`. The order of ranks is drawn: a ring
/// begins elsewhere for each stretch of values.
std::vector<std::uint8_t> added(const Match& match, std::size_t offset, std::mt19937_64& random) {
    constexpr std::size_t stretch = 64;
    const Call& call = *match.calls.front();
    const std::size_t size = size_of(call.type);
    std::vector<std::uint8_t> result(call.bytes());
    for (std::size_t first = 0; first < call.count; first += stretch) {
        std::vector<const std::uint8_t*> parts;
        for (const auto& one : match.calls)
            parts.push_back(place(part(one->send, 1, offset), call.bytes(), false) + first * size);
        std::rotate(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(random() % parts.size()),
                    parts.end());
        reduce(parts, result.data() + first * size, std::min(stretch, call.count - first), call.type,
               call.operation);
    }
    return result;
}

void put(void* to, const std::vector<std::uint8_t>& values) {
    if (!values.empty())
        std::memcpy(place(to, values.size(), true), values.data(), values.size());
}

} // namespace

void carry_out(const Match& match, std::mt19937_64& random) {
    const Call& first = *match.calls.front();
    const auto root = static_cast<std::size_t>(first.peer);
    const std::size_t bytes = first.bytes();
    switch (first.kind) {
    case CallKind::send:
    case CallKind::receive:
        move(match.calls[1]->receive, match.calls[0]->send, bytes);
        break;
    case CallKind::all_gather:
        for (const auto& to : match.calls)
            for (std::size_t from = 0; from < match.calls.size(); ++from)
                move(part(to->receive, from, bytes), match.calls[from]->send, bytes);
        break;
    case CallKind::broadcast:
        for (const auto& to : match.calls)
            move(to->receive, match.calls[root]->send, bytes);
        break;
    case CallKind::reduce:
        put(match.calls[root]->receive, added(match, 0, random));
        break;
    case CallKind::reduce_scatter: {
        std::vector<std::vector<std::uint8_t>> sums; // all before any is written: it may be in place
        for (std::size_t to = 0; to < match.calls.size(); ++to)
            sums.push_back(added(match, to * bytes, random));
        for (std::size_t to = 0; to < match.calls.size(); ++to)
            put(match.calls[to]->receive, sums[to]);
        break;
    }
    case CallKind::all_reduce: {
        const std::vector<std::uint8_t> sum = added(match, 0, random);
        for (const auto& to : match.calls)
            put(to->receive, sum);
        break;
    }
    }
}

} // namespace truestep::simulator::nccl
