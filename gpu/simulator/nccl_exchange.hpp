#pragma once

// What ranks of a simulated NCCL share: communicators, and calls that meet.

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nccl.h>

#include "device.hpp"

namespace truestep::simulator::nccl {

enum class CallKind : std::uint8_t {
    send,
    receive,
    all_gather,
    broadcast,
    reduce,
    reduce_scatter,
    all_reduce
};

struct Match;
struct Split;

/// A call of one rank.
struct Call {
    CallKind kind = CallKind::send;
    const void* send = nullptr;
    void* receive = nullptr;
    std::size_t count = 0;
    ncclDataType_t type = ncclUint8;
    ncclRedOp_t operation = ncclSum;
    int peer = 0;             ///< or the root
    int rank = 0;             ///< the rank of the caller
    std::uint64_t number = 0; ///< of the rank's collectives, or of its messages to or from the peer
    bool begun = false;       ///< its stream has reached it
    std::shared_ptr<Match> match = {};

    [[nodiscard]] bool collective() const { return kind != CallKind::send && kind != CallKind::receive; }
    [[nodiscard]] std::size_t bytes() const;
    /// The bytes that the call reads and writes, in a communicator with this many ranks.
    [[nodiscard]] std::size_t bytes_sent(int ranks) const;
    [[nodiscard]] std::size_t bytes_received(int ranks) const;
    /// "all-gather 3 of 16 ncclUint8".
    [[nodiscard]] std::string text() const;
};

/// Calls of several ranks that belong together: a whole collective, or both ends of a message.
struct Match {
    std::vector<std::shared_ptr<Call>> calls; ///< by rank; of a message the sender's first
    bool done = false;

    [[nodiscard]] bool ready() const;
};

/// A communicator, with all its ranks.
struct World {
    struct Key {
        int from = -1;
        int to = -1;
        std::uint64_t number = 0;
        // clang-tidy takes the 0 in the default's comparison for a pointer.
        auto operator<=>(const Key&) const = default; // NOLINT(modernize-use-nullptr)
    };
    int number = 0;
    std::vector<bool> joined; ///< by rank
    std::vector<bool> left;   ///< destroyed or aborted
    std::vector<bool> finalized;
    std::vector<int> devices;
    std::map<Key, std::shared_ptr<Match>> under_way;
    std::vector<std::shared_ptr<Split>> splits;

    [[nodiscard]] int ranks() const { return static_cast<int>(joined.size()); }
    [[nodiscard]] bool complete() const;
    /// Whether two ranks have the same device.
    [[nodiscard]] bool shares_devices() const;
    /// Throws Fault if the call does not fit the calls of other ranks.
    void add(const std::shared_ptr<Call>& call);
    /// "communicator 1 (4 ranks)".
    [[nodiscard]] std::string text() const;
};

/// Moves and adds the data of a match. Throws Fault for what it cannot add.
void carry_out(const Match& match, std::mt19937_64& random);

/// A group of one rank on one stream: like a kernel of NCCL, it waits on the device for the other
/// ranks.
class Exchange final : public Meeting {
  public:
    Exchange(std::shared_ptr<World> world, int rank, std::vector<std::shared_ptr<Call>> calls,
             std::shared_ptr<Exchange> before);
    ~Exchange() override { land(); }

    [[nodiscard]] bool can_go_on() const override;
    bool go_on(std::mt19937_64& random) override;
    [[nodiscard]] std::string waits_for() const override;
    /// Ends without any further work.
    void abort();
    [[nodiscard]] bool over() const { return over_; }
    Stream* stream = nullptr;

  private:
    void begin();
    void fly(const Call& call, const void* at, std::size_t bytes, bool written);
    void land();
    [[nodiscard]] bool all_done() const;

    std::shared_ptr<World> world_;
    int rank_;
    std::vector<std::shared_ptr<Call>> calls_;
    std::shared_ptr<Exchange> before_; ///< of the same communicator
    bool begun_ = false;
    bool over_ = false;
};

} // namespace truestep::simulator::nccl
