#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/mpi.hpp>

#include "mpi_notices.hpp"
#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {

/// The pieces of a message on their way.
class MpiPieces {
  public:
    /// Starts each piece by start(begin, count, request).
    template <class Start>
    void start(std::size_t bytes, std::size_t piece, const Start& start) {
        bytes_ = bytes;
        piece_ = piece;
        requests_.assign((bytes + piece - 1) / piece, MPI_REQUEST_NULL);
        for (std::size_t i = 0; i < requests_.size(); ++i)
            start(i * piece, static_cast<int>(std::min(piece, bytes - i * piece)), &requests_[i]);
    }
    /// Looks which pieces have arrived. True when all have.
    [[nodiscard]] bool test();
    /// How many bytes have arrived, from the beginning on.
    [[nodiscard]] std::size_t there() const { return std::min(bytes_, done_ * piece_); }

  private:
    std::vector<MPI_Request> requests_;
    std::size_t bytes_ = 0;
    std::size_t piece_ = 1;
    std::size_t done_ = 0; ///< of requests_, from the first on
};

/// A message that this rank has asked for.
struct MpiArrival {
    int peer;
    std::uint64_t sequence; ///< among all from this peer to this rank
    Label awaited;
    Label sent{};
    std::vector<std::byte> buffer{};
    MpiPieces pieces{};
    bool coming = false;
    bool never = false; ///< the peer has ended
    bool complete = false;
    bool dropped = false; ///< received all the same, because its sender has to get rid of it

    [[nodiscard]] bool has(std::size_t bytes) const { return coming && pieces.there() >= bytes; }
    [[nodiscard]] bool is_another() const { return coming && sent != awaited; }
};

/// All messages of one rank. A message stays with its sender until the receiver asks for it, so MPI
/// never holds a message that will not be taken. Then the sender announces it, the receiver makes
/// room, and the pieces follow. All this happens only inside of calls.
class MpiMail {
  public:
    MpiMail(MPI_Comm ranks, MpiOptions options);
    MpiMail(const MpiMail&) = delete;
    MpiMail& operator=(const MpiMail&) = delete;
    ~MpiMail() = default;

    [[nodiscard]] int rank() const { return rank_; }
    [[nodiscard]] int size() const { return static_cast<int>(peers_.size()); }
    void check(int peer) const;

    void send(int peer, const Label& label, std::shared_ptr<const void> message);
    [[nodiscard]] std::shared_ptr<MpiArrival> ask_for(int peer, const Label& label);
    /// Returns when the first bytes have arrived. Throws Aborted.
    void wait(const MpiArrival& arrival, std::size_t bytes);
    void drop(MpiArrival& arrival);
    /// Throws Aborted if the peer has ended.
    void must_go_on(int peer, const Label& label) {
        check(peer);
        progress();
        if (at(peer).end)
            end_by(peer, label);
    }
    void progress();
    void leave(const std::string& reason);
    /// Returns when nothing of this rank is under way. On a rank that has failed it does not
    /// return.
    void finish();

  private:
    struct OutgoingMessage {
        int peer;
        std::uint64_t sequence;
        Label label;
        std::shared_ptr<const void> message;
        MpiPieces pieces{};
    };
    struct End {
        Notice::End how;
        std::uint64_t messages; ///< sent to this rank
        std::string text;
    };
    struct Peer {
        std::deque<OutgoingMessage> queue; ///< not asked for yet
        std::uint64_t wanted = 0;          ///< by the peer, beyond those queued here
        std::uint64_t sent = 0;
        std::deque<std::shared_ptr<MpiArrival>> asked; ///< that have not begun to arrive
        std::uint64_t asked_in_all = 0;
        std::optional<End> end;
        struct Answer {
            std::uint64_t waits_for;
            std::string line; ///< says so, for a report
        };
        std::optional<Answer> answer; ///< if it has been asked
        bool gone = false;
    };

    [[nodiscard]] Peer& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
    void start(int peer);
    void handle(int from, const Notice& notice);
    void come(MpiArrival& arrival, const Notice& notice);
    void handle_end(int from, const Notice& notice);
    void announce();
    void recycle(std::vector<std::byte>& buffer);
    [[nodiscard]] bool quiet();
    [[nodiscard]] bool all_others_ended() const;
    [[nodiscard]] bool speaks() const;
    [[nodiscard]] std::string untaken() const;
    [[noreturn]] void end_job();
    void go();
    [[noreturn]] void end_by(int peer, const Label& awaited);
    [[noreturn]] void end(const std::string& text, bool by_another);
    void time_out(const MpiArrival& arrival, std::size_t bytes);
    [[nodiscard]] int who_holds_up(int late) const;
    [[nodiscard]] std::string wait_line() const;
    void report_waits(int last) const;

    MpiOptions options_;
    MPI_Comm ranks_;
    std::unique_ptr<MpiNotices> notices_;
    int rank_ = 0;
    std::vector<Peer> peers_;
    std::list<OutgoingMessage> sending_;
    std::vector<std::shared_ptr<MpiArrival>> arriving_;
    std::vector<std::vector<std::byte>> buffers_; ///< of one size, to be used again
    std::uint64_t waits_for_ = Notice::none;      ///< stays set after a wait that failed
    Label waits_in_;                              ///< or did last
    std::optional<std::chrono::steady_clock::time_point> waits_since_; ///< likewise
    std::string told_;                                                 ///< the text of the last Aborted
    bool told_by_another_ = false;
    std::optional<End> own_end_;
};

} // namespace truestep::distributed
