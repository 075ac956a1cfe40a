// The interface through which all ranks exchange data together.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace truestep::distributed {

/// The purpose of a message. Traffic is counted by it.
enum class Traffic : std::uint8_t { agreement, payload, moment, mask, gradient, parameters };
constexpr std::size_t traffic_kinds = 6;

[[nodiscard]] std::string_view name(Traffic traffic);

/// The bytes that one rank sends to others, by kind. Data that stays on the rank does not count.
using Bytes = std::array<std::uint64_t, traffic_kinds>;

/// A rank has failed, died or not answered in time, so no rank takes another step. The text names
/// the rank.
class Aborted : public std::runtime_error {
  public:
    explicit Aborted(const std::string& text) : std::runtime_error(text) {}
};

/// An exchange that has been started. It owns the buffers that it was given until wait() has
/// returned.
class Exchange {
  public:
    virtual ~Exchange() = default;
    /// Returns when the received data has arrived and the sent buffer may be used again. Throws
    /// Aborted.
    virtual void wait() = 0;
    /// For an exchange in two hops: waits for the first and starts the second, so that only the
    /// second is under way from here on. All ranks call it at the same point; otherwise wait()
    /// does.
    virtual void relay() {}
    /// Waits like wait(), but starts no second hop, to which other ranks may not come. A rank that gives an
    /// exchange up calls it.
    virtual void settle() { wait(); }

    /// A step starts as many exchanges as the one before, so the thread keeps the memory of past
    /// exchanges for the next ones.
    // Its partner is the sized one below, which clang-tidy does not count.
    // NOLINTNEXTLINE(misc-new-delete-overloads,cert-dcl54-cpp)
    static void* operator new(std::size_t bytes);
    static void operator delete(void* memory, std::size_t bytes) noexcept;
};

/// A piece of a part of any size: the bytes from `begin` on, at most `count` of them.
struct Piece {
    std::size_t begin = 0;
    std::size_t count = std::numeric_limits<std::size_t>::max();

    [[nodiscard]] std::size_t begin_in(std::size_t part) const { return std::min(begin, part); }
    [[nodiscard]] std::size_t size_in(std::size_t part) const {
        return std::min(count, part - begin_in(part));
    }
};

/// A part of a buffer, in bytes.
struct Stretch {
    std::size_t begin = 0;
    std::size_t size = 0;
};

/// How ranks exchange data, limited to the needs of a step. Sizes come from the problem and are
/// known on all ranks, so they never travel. All ranks start the same exchanges in the same order;
/// several may be under way at once.
class Communicator {
  public:
    using Sizes = std::span<const std::size_t>; ///< in bytes, one per rank
    using Stretches = std::span<const Stretch>; ///< one per rank

    virtual ~Communicator() = default;

    [[nodiscard]] virtual int rank() const = 0;
    [[nodiscard]] virtual int size() const = 0;
    [[nodiscard]] virtual std::string name() const = 0;

    /// Sends part r of `send` to rank r, and receives part r of `receive` from it. The parts lie
    /// one after the other.
    virtual std::unique_ptr<Exchange> start_all_to_all(Traffic traffic, const void* send, Sizes send_sizes,
                                                       void* receive, Sizes receive_sizes) = 0;

    /// An all-to-all in which every rank has sizes[r] bytes for rank r, but only the piece of each
    /// part travels. A caller that works piece by piece needs no room for all the data.
    virtual std::unique_ptr<Exchange> start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                          Piece piece, void* receive);
    /// Whether a piece may be less than the whole part. By default it may not.
    [[nodiscard]] virtual bool sends_pieces() const { return false; }

    /// An all-to-all in which most ranks may have nothing: stretch r of `send` goes to rank r, and
    /// stretch r of `receive` comes from it. Empty stretches do not travel. Sent stretches may
    /// overlap; received ones lie apart from each other, and from the sent ones.
    virtual std::unique_ptr<Exchange> start_stretches(Traffic traffic, const void* send, Stretches to,
                                                      void* receive, Stretches from);

    /// On all ranks, part r of `receive` comes from rank r. `send` is this rank's own part; it may
    /// already be in its place in `receive`.
    virtual std::unique_ptr<Exchange> start_all_gather(Traffic traffic, const void* send, void* receive,
                                                       Sizes sizes) = 0;

    /// The bytes that this rank sends to others in such a gather.
    [[nodiscard]] virtual std::uint64_t sent_by_gather(Sizes sizes) const {
        return static_cast<std::uint64_t>(sizes[static_cast<std::size_t>(rank())]) * (sizes.size() - 1);
    }

    /// The sum over ranks of part `rank()` of `send`, in an order that the library chooses. Sizes
    /// are of floats, in bytes.
    virtual std::unique_ptr<Exchange> start_reduce_scatter(Traffic traffic, const float* send,
                                                           float* receive, Sizes sizes) = 0;

    /// Whether the host can read received data as soon as it has been waited for. Not on a device,
    /// whose stream runs on its own.
    [[nodiscard]] virtual bool host_can_read(Traffic) const { return true; }

    /// Lets exchanges under way make progress. Call it during long computations.
    virtual void progress() = 0;

    /// Ends all ranks' exchanges with Aborted, naming this rank and the reason. It returns, so that
    /// the caller can throw its own error.
    virtual void abort(const std::string& reason) noexcept = 0;
};

/// Gathers one small record from each rank, in rank order, so that ranks can agree. The caller
/// keeps the room, which also holds each record's size.
template <class Record>
void gather_records(Communicator& communicator, const Record& mine, std::vector<Record>& all,
                    std::vector<std::size_t>& sizes) {
    static_assert(std::is_trivially_copyable_v<Record>);
    const auto ranks = static_cast<std::size_t>(communicator.size());
    all.resize(ranks);
    sizes.assign(ranks, sizeof(Record));
    communicator.start_all_gather(Traffic::agreement, &mine, all.data(), sizes)->wait();
}
template <class Record>
[[nodiscard]] std::vector<Record> gather_records(Communicator& communicator, const Record& mine) {
    std::vector<Record> all;
    std::vector<std::size_t> sizes;
    gather_records(communicator, mine, all, sizes);
    return all;
}

} // namespace truestep::distributed
