// Keeps recorded bytes in memory, or in an unlinked file if the caller names one.
#include "spool.hpp"

#include <system_error>

#include <truestep/problem/error.hpp>

namespace truestep::abi {

namespace {

[[noreturn]] void spool_fails(const std::filesystem::path& path, const std::string& what,
                              std::error_code error) {
    throw Error(path.string() + ": what is recorded cannot be " + what + ": " +
                (error ? error.message() : "the file has shrunk") + "; give a folder with enough room");
}

} // namespace

void Spool::open(const std::filesystem::path& path) {
    const storage::Destination destination = storage::disk().destination(path);
    if (destination.in_place()) // what follows would remove it
        throw Error(path.string() + ": a recorder needs a regular file; give the name of a new file");
    std::error_code error;
    output_ = storage::disk().create(destination.last, error);
    if (error)
        spool_fails(path, "kept", error);
    path_ = path;
    input_ = storage::disk().open(destination.last, error);
    if (!error) // an unlinked file vanishes when its process ends, even if killed
        error = storage::disk().remove(destination.last);
    if (error)
        spool_fails(path, "kept", error);
}

Spool::Place Spool::put(std::span<const std::byte> bytes) {
    if (path_.empty())
        return {0, bytes.size(), {bytes.begin(), bytes.end()}};
    if (!output_)
        throw Error(path_.string() + ": a write has failed, and the recording has a gap; record again");
    std::error_code error;
    Place place{written_, bytes.size()};
    written_ += storage::write_all(*output_, bytes, error);
    if (error) {
        output_.reset();
        spool_fails(path_, "written", error);
    }
    return place;
}

std::vector<std::byte> Spool::get(const Place& place) const {
    if (path_.empty())
        return place.bytes;
    std::vector<std::byte> bytes(place.size);
    for (std::size_t at = 0; at < bytes.size();) {
        std::error_code error;
        const std::size_t count = input_->read(place.offset + at, std::span(bytes).subspan(at), error);
        if (error || count == 0)
            spool_fails(path_, "read again", error);
        at += count;
    }
    return bytes;
}

} // namespace truestep::abi
