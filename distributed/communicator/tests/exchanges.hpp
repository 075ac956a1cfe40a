#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process.hpp>

// Exchanges whose answer each rank knows without communication.

namespace truestep::distributed {

inline std::size_t as_size(int value) {
    return static_cast<std::size_t>(value);
}

/// Uneven sizes, with empty parts, different for each pair and round.
inline std::size_t part_size(int from, int to, std::size_t round) {
    const std::size_t mixed = as_size(from) * 7 + as_size(to) * 13 + round * 5;
    return mixed % 3 == 0 ? 0 : mixed % 29;
}

inline std::byte value(int from, int to, std::size_t round, std::size_t at) {
    return static_cast<std::byte>(as_size(from) * 31 + as_size(to) * 17 + round * 101 + at);
}

/// One all-to-all with its buffers, whose answer each rank knows without communication.
class AllToAll {
  public:
    AllToAll(Communicator& communicator, std::size_t round) : rank_(communicator.rank()), round_(round) {
        for (int peer = 0; peer < communicator.size(); ++peer) {
            send_sizes_.push_back(part_size(rank_, peer, round));
            receive_sizes_.push_back(part_size(peer, rank_, round));
            for (std::size_t at = 0; at < send_sizes_.back(); ++at)
                send_.push_back(value(rank_, peer, round, at));
        }
        receive_.resize(std::reduce(receive_sizes_.begin(), receive_sizes_.end()));
        exchange_ = communicator.start_all_to_all(Traffic::payload, send_.data(), send_sizes_,
                                                  receive_.data(), receive_sizes_);
    }

    void wait() {
        exchange_->wait();
        std::ranges::fill(send_, std::byte{0xEE}); // from now on the sent buffer belongs to this test
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(receive_sizes_.size()); ++peer) {
            const std::size_t size = receive_sizes_[as_size(peer)];
            for (std::size_t at = 0; at < size; ++at)
                ASSERT_EQ(receive_[begin + at], value(peer, rank_, round_, at))
                    << "from " << peer << " to " << rank_;
            begin += size;
        }
    }

  private:
    int rank_;
    std::size_t round_;
    std::vector<std::size_t> send_sizes_;
    std::vector<std::size_t> receive_sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

class AllGather {
  public:
    AllGather(Communicator& communicator, std::size_t round, bool in_place, Traffic traffic = Traffic::mask)
        : round_(round) {
        const int rank = communicator.rank();
        for (int peer = 0; peer < communicator.size(); ++peer)
            sizes_.push_back(part_size(peer, 0, round));
        receive_.resize(std::reduce(sizes_.begin(), sizes_.end()));
        const std::size_t before = std::reduce(sizes_.begin(), sizes_.begin() + rank);
        if (!in_place)
            send_.resize(sizes_[as_size(rank)]);
        std::byte* const own = in_place ? receive_.data() + before : send_.data();
        for (std::size_t at = 0; at < sizes_[as_size(rank)]; ++at)
            own[at] = value(rank, 0, round, at);
        exchange_ = communicator.start_all_gather(traffic, own, receive_.data(), sizes_);
    }

    void wait() {
        exchange_->wait();
        std::size_t begin = 0;
        for (int peer = 0; peer < static_cast<int>(sizes_.size()); ++peer) {
            for (std::size_t at = 0; at < sizes_[as_size(peer)]; ++at)
                ASSERT_EQ(receive_[begin + at], value(peer, 0, round_, at)) << "from " << peer;
            begin += sizes_[as_size(peer)];
        }
    }

  private:
    std::size_t round_;
    std::vector<std::size_t> sizes_;
    std::vector<std::byte> send_;
    std::vector<std::byte> receive_;
    std::unique_ptr<Exchange> exchange_;
};

} // namespace truestep::distributed
