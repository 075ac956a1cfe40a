// Holds the default forms of exchanges by copies, and the texts of errors about ranks.
#include <truestep/distributed/communicator.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/timeline.hpp>

#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {

std::string_view name(Traffic traffic) {
    constexpr std::array<std::string_view, traffic_kinds> names{"agreement", "payload",  "moment",
                                                                "mask",      "gradient", "parameters"};
    return names.at(static_cast<std::size_t>(traffic));
}

std::unique_ptr<Exchange> Communicator::start_all_to_owners(Traffic traffic, const void* send, Sizes sizes,
                                                            Piece piece, void* receive) {
    for (const std::size_t size : sizes)
        if (piece.size_in(size) != size)
            throw std::logic_error("the communicator " + name() + " sends no pieces of parts");
    const std::vector<std::size_t> from_each(sizes.size(), sizes[static_cast<std::size_t>(rank())]);
    return start_all_to_all(traffic, send, sizes, receive, from_each);
}

namespace {

/// Stretches copied one after the other, like the parts of an all-to-all.
class PackedStretches {
  public:
    explicit PackedStretches(Communicator::Stretches stretches)
        : stretches_(stretches.begin(), stretches.end()) {
        std::size_t all = 0;
        for (const Stretch& stretch : stretches_) {
            sizes_.push_back(stretch.size);
            all += stretch.size;
        }
        bytes_.resize(all);
    }

    void take(const void* from) {
        std::byte* packed = bytes_.data();
        for (const Stretch& stretch : stretches_)
            packed = std::copy_n(static_cast<const std::byte*>(from) + stretch.begin, stretch.size, packed);
    }
    void give(void* to) const {
        const std::byte* packed = bytes_.data();
        for (const Stretch& stretch : stretches_) {
            std::copy_n(packed, stretch.size, static_cast<std::byte*>(to) + stretch.begin);
            packed += stretch.size;
        }
    }

    [[nodiscard]] Communicator::Sizes sizes() const { return sizes_; }
    [[nodiscard]] void* bytes() { return bytes_.data(); }

  private:
    std::vector<Stretch> stretches_;
    std::vector<std::size_t> sizes_;
    std::vector<std::byte> bytes_;
};

class PackedExchange final : public Exchange {
  public:
    PackedExchange(Communicator& communicator, Traffic traffic, const void* send,
                   Communicator::Stretches to, void* receive, Communicator::Stretches from)
        : sent_(to), received_(from), receive_(receive) {
        sent_.take(send);
        exchange_ = communicator.start_all_to_all(traffic, sent_.bytes(), sent_.sizes(), received_.bytes(),
                                                  received_.sizes());
    }

    void wait() override {
        if (!exchange_)
            return;
        exchange_->wait();
        exchange_.reset();
        received_.give(receive_);
    }

  private:
    PackedStretches sent_;
    PackedStretches received_;
    void* receive_;
    std::unique_ptr<Exchange> exchange_;
};

} // namespace

// By copies. Communicators that can do without them override this.
std::unique_ptr<Exchange> Communicator::start_stretches(Traffic traffic, const void* send, Stretches to,
                                                        void* receive, Stretches from) {
    if (!host_can_read(traffic))
        throw Error("the communicator " + name() + " has no groups; leave the setting groups out");
    return std::make_unique<PackedExchange>(*this, traffic, send, to, receive, from);
}

std::string ranks_text(std::span<const int> ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (i > 0)
            text += i + 1 == ranks.size() ? " and " : ", ";
        text += std::to_string(ranks[i]);
    }
    return text;
}

std::string exchange_text(Traffic traffic) {
    return (traffic == Traffic::agreement ? "an " : "a ") + std::string(name(traffic)) + " exchange";
}

namespace {

std::string seconds_text(std::chrono::milliseconds time) {
    std::ostringstream text;
    text << static_cast<double>(time.count()) / 1000 << " s";
    return text.str();
}

std::string message_and_size_text(const Label& label) {
    std::string text = message_text(label);
    text.pop_back();
    return text + ", " + std::to_string(label.bytes) + " bytes)";
}

} // namespace

std::string tenths_text(std::chrono::milliseconds time) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f s", static_cast<double>(time.count()) / 1000);
    return text.data();
}

std::string wait_text(int rank, std::chrono::milliseconds since, std::span<const int> awaited,
                      const std::string& where, const std::string& spans) {
    return "  rank " + std::to_string(rank) + " has waited " + tenths_text(since) +
           (awaited.empty() ? "" : " for " + ranks_text(awaited)) + " in " + where + "\n" + spans;
}

std::string idle_text(int rank, const std::string& why, const std::string& spans) {
    return "  rank " + std::to_string(rank) + " does not wait" + why + "\n" + spans;
}

std::string last_spans(int rank) {
    constexpr std::size_t shown = 4;
    return problem::Timeline::last_spans(rank, shown);
}

std::string message_text(const Label& label) {
    return std::string(name(label.traffic)) + " (message " + std::to_string(label.number) + ")";
}

std::string missing_text(std::span<const int> ranks, std::chrono::milliseconds timeout,
                         const std::string& where) {
    return ranks_text(ranks) + " did not answer within " + seconds_text(timeout) + " in " + where;
}

std::string reason_text(int rank, const std::string& reason) {
    return "rank " + std::to_string(rank) + ": " + reason;
}

std::string late_text(int from, const Label& label, int to, std::chrono::milliseconds timeout) {
    return "rank " + std::to_string(from) + " did not send its " + message_text(label) + " to rank " +
           std::to_string(to) + " within " + seconds_text(timeout);
}

std::string untaken_text(int to, const Label& label, int from, std::chrono::milliseconds timeout) {
    return "rank " + std::to_string(to) + " did not take the " + message_text(label) + " of rank " +
           std::to_string(from) + " within " + seconds_text(timeout);
}

std::string left_text(int from, const Label& label, int to) {
    return "rank " + std::to_string(from) + " has left and did not send its " + message_text(label) +
           " to rank " + std::to_string(to);
}

std::string other_text(int from, const Label& sent, int to, const Label& awaited) {
    return "rank " + std::to_string(from) + " sent its " + message_and_size_text(sent) + " where rank " +
           std::to_string(to) + " awaits its " + message_and_size_text(awaited);
}

std::string end_text(int rank, const std::string& reason, const std::string& told) {
    if (reason.empty() || (!told.empty() && reason.starts_with(told)))
        return reason;
    return "rank " + std::to_string(rank) + " has failed: " + reason;
}

void check_peer(int peer, int rank, int size) {
    if (peer < 0 || peer >= size || peer == rank)
        throw std::invalid_argument("rank " + std::to_string(peer) + " is not a peer of rank " +
                                    std::to_string(rank) + " of " + std::to_string(size));
}

} // namespace truestep::distributed
