#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include <mpi.h>

#include <truestep/distributed/missing.hpp>

namespace truestep::distributed {

/// A few bytes about messages, or about a rank.
struct Notice {
    enum class Kind : std::uint8_t {
        want,     ///< the next message, for which there is a place
        coming,   ///< it: its label, and the size of its pieces
        released, ///< to a rank that has ended: none of what it wants will come any more
        ended,    ///< this rank: how, with which text, after so many messages to the receiver
        ask,      ///< whom do you wait for?
        answer,   ///< for this rank, or for none
        gone,     ///< nothing will come from this rank any more
    };
    enum class End : std::uint8_t { well, by_another, by_itself };
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    Kind kind{};
    End end{};
    Label label{};
    std::uint64_t count = 0;
    std::string text{};
};

/// How notices travel. Every rank keeps a receive posted for them; two from one rank come in their order.
class MpiNotices {
  public:
    explicit MpiNotices(MPI_Comm ranks);
    MpiNotices(const MpiNotices&) = delete;
    MpiNotices& operator=(const MpiNotices&) = delete;
    ~MpiNotices();

    static constexpr int tag = 0;

    void send(int to, const Notice& notice);
    [[nodiscard]] bool receive(int& from, Notice& notice);
    /// Looks after what has been sent; true when it has all gone.
    [[nodiscard]] bool all_sent();
    /// No receive is posted any more: what comes is taken only where it is asked for.
    void stop();

  private:
    struct Sent {
        std::vector<std::byte> bytes;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    void post();
    [[nodiscard]] bool arrives(MPI_Status& status);

    MPI_Comm ranks_;
    std::vector<std::byte> place_; ///< where the next one is received
    MPI_Request posted_ = MPI_REQUEST_NULL;
    bool stopped_ = false;
    std::optional<MPI_Status> last_; ///< of one that came while it stopped
    std::list<Sent> sent_;           ///< a list, for MPI reads them where they are
};

/// Ends the job with what MPI says, unless the code is success.
void check_mpi(int code);

} // namespace truestep::distributed
