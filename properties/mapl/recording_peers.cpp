// Records the bytes of each MAPL message, at once or when a device has written them.
#include "recording_peers.hpp"

#include <cstring>

#include "implementation.hpp"

namespace truestep::properties::mapl {

void RecordingPeers::note(int peer, const void* message, std::size_t bytes) {
    if (when.empty())
        return;
    const auto* const begin = static_cast<const std::uint8_t*>(message);
    auto& all = wire_[wire_key(when, named_(peer))];
    all.insert(all.end(), begin, begin + bytes);
}

void RecordingPeers::note_later(int peer, Reads reads, std::size_t bytes) {
    if (when.empty())
        return;
    const std::string key = wire_key(when, named_(peer));
    auto& all = wire_[key];
    pending_.push_back({key, all.size(), bytes, std::move(reads)});
    all.resize(all.size() + bytes);
}

std::shared_ptr<const void> RecordingPeers::damaged(const void* message, std::size_t bytes) {
    const auto* const begin = static_cast<const std::uint8_t*>(message);
    const auto copy = std::make_shared<std::vector<std::uint8_t>>(begin, begin + bytes);
    std::exchange(damage, {})(*copy);
    return {copy, copy->data()};
}

void RecordingPeers::settle() {
    for (const Pending& one : std::exchange(pending_, {}))
        if (one.bytes > 0)
            std::memcpy(wire_[one.key].data() + one.begin, one.reads(), one.bytes);
}

} // namespace truestep::properties::mapl
