#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include <truestep/distributed/communicator.hpp>

#include "explorer.hpp"
#include "model.hpp"

/// One exchange of each kind among three ranks, with buffers whose users are looked after.
namespace truestep::distributed::model {

using distributed::Aborted;
using distributed::Communicator;
using distributed::Exchange;
using distributed::Piece;
using distributed::Traffic;

constexpr std::size_t ranks = 3;
using Sizes = std::vector<std::size_t>;

inline std::size_t rank_of(const Communicator& communicator) {
    return static_cast<std::size_t>(communicator.rank());
}

/// A rank's own memory. Overwriting and freeing it count as writes, which reveals a peer that still
/// reads.
class Buffer {
  public:
    explicit Buffer(std::size_t size) : region_(Scheduler::now().region(size)) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() {
        spoil();
        region_.gone = true;
    }

    [[nodiscard]] std::byte* data() { return region_.bytes.data(); }
    [[nodiscard]] std::size_t size() const { return region_.bytes.size(); }
    void spoil() {
        Scheduler::now().write(data(), size());
        std::fill(region_.bytes.begin(), region_.bytes.end(), std::byte{0xEE});
    }
    void set(std::size_t at, int value) {
        Scheduler::now().write(data() + at, 1);
        region_.bytes[at] = static_cast<std::byte>(value);
    }
    [[nodiscard]] int get(std::size_t at) {
        Scheduler::now().read(data() + at, 1);
        return static_cast<int>(region_.bytes[at]);
    }

  private:
    Scheduler::Region& region_;
};

/// Different for each pair, and empty for one.
inline std::size_t part_size(std::size_t from, std::size_t to) {
    return (from + 2 * to) % 3;
}

inline int value(std::size_t from, std::size_t to, std::size_t at) {
    return static_cast<int>(1 + from * 50 + to * 10 + at);
}

class AllToAll {
  public:
    explicit AllToAll(Communicator& communicator, Traffic traffic = Traffic::payload)
        : rank_(rank_of(communicator)), send_sizes_(sizes(true)), receive_sizes_(sizes(false)) {
        std::size_t at = 0;
        for (std::size_t to = 0; to < ranks; ++to)
            for (std::size_t i = 0; i < send_sizes_[to]; ++i)
                send_.set(at++, value(rank_, to, i));
        exchange_ = communicator.start_all_to_all(traffic, send_.data(), send_sizes_, receive_.data(),
                                                  receive_sizes_);
    }

    void wait() {
        try {
            exchange_->wait();
        } catch (const Aborted&) {
            send_.spoil(); // the exchange has been waited for, even if it failed
            throw;
        }
        send_.spoil();
        std::size_t at = 0;
        for (std::size_t from = 0; from < ranks; ++from)
            for (std::size_t i = 0; i < receive_sizes_[from]; ++i)
                expect(receive_.get(at++) == value(from, rank_, i),
                       "a part has other bytes than were sent");
    }

  private:
    [[nodiscard]] Sizes sizes(bool sent) const {
        Sizes all;
        for (std::size_t peer = 0; peer < ranks; ++peer)
            all.push_back(sent ? part_size(rank_, peer) : part_size(peer, rank_));
        return all;
    }

    std::size_t rank_;
    Sizes send_sizes_;
    Sizes receive_sizes_;
    Buffer send_{std::reduce(send_sizes_.begin(), send_sizes_.end())};
    Buffer receive_{std::reduce(receive_sizes_.begin(), receive_sizes_.end())};
    std::unique_ptr<Exchange> exchange_; ///< destroyed before the buffers
};

/// A gather in place: each rank's part is in its place before it is sent.
class AllGather {
  public:
    explicit AllGather(Communicator& communicator) : rank_(rank_of(communicator)) {
        for (std::size_t i = 0; i < sizes_[rank_]; ++i)
            all_.set(begin(rank_) + i, value(rank_, 0, i));
        exchange_ =
            communicator.start_all_gather(Traffic::mask, all_.data() + begin(rank_), all_.data(), sizes_);
    }

    void wait() {
        exchange_->wait();
        for (std::size_t from = 0; from < ranks; ++from)
            for (std::size_t i = 0; i < sizes_[from]; ++i)
                expect(all_.get(begin(from) + i) == value(from, 0, i),
                       "a part has other bytes than were sent");
        all_.spoil();
    }

  private:
    [[nodiscard]] std::size_t begin(std::size_t rank) const {
        return std::reduce(sizes_.begin(), sizes_.begin() + static_cast<std::ptrdiff_t>(rank));
    }

    std::size_t rank_;
    Sizes sizes_{2, 1, 1};
    Buffer all_{4};
    std::unique_ptr<Exchange> exchange_;
};

inline void to_owners(Communicator& communicator) {
    const std::size_t rank = rank_of(communicator);
    const Sizes sizes{3, 2, 1};
    const Piece piece{1, 1};
    Buffer send(6);
    for (std::size_t i = 0; i < send.size(); ++i)
        send.set(i, value(rank, 0, i));
    Buffer receive(ranks * piece.size_in(sizes[rank]));
    communicator.start_all_to_owners(Traffic::payload, send.data(), sizes, piece, receive.data())->wait();
    send.spoil();
    const std::size_t begin = rank == 0 ? 1 : 4; // of the piece, in the parts of all ranks
    for (std::size_t from = 0; from < receive.size(); ++from)
        expect(receive.get(from) == value(from, 0, begin), "a piece has other bytes than were sent");
}

inline void reduce_scatter(Communicator& communicator) {
    const std::size_t rank = rank_of(communicator);
    const Sizes sizes(ranks, sizeof(float));
    Buffer send(ranks * sizeof(float));
    Buffer receive(sizeof(float));
    std::array<float, ranks> values{};
    for (std::size_t to = 0; to < ranks; ++to)
        values[to] = static_cast<float>(value(rank, to, 0));
    copy(send.data(), values.data(), sizeof values);
    communicator
        .start_reduce_scatter(Traffic::gradient, reinterpret_cast<const float*>(send.data()),
                              reinterpret_cast<float*>(receive.data()), sizes)
        ->wait();
    send.spoil();
    float sum = 0;
    copy(&sum, receive.data(), sizeof sum);
    expect(sum == static_cast<float>(value(0, rank, 0) + value(1, rank, 0) + value(2, rank, 0)),
           "a sum is another than that of what was sent");
}

} // namespace truestep::distributed::model
