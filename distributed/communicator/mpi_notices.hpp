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
        want,     ///< asks for the next message, for which there is room
        coming,   ///< announces it: its label, and the size of its pieces
        released, ///< to a rank that has ended: nothing that it asked for will come
        ended,    ///< this rank has ended: how, with which text, after how many messages to the receiver
        ask,      ///< asks for whom the receiver waits
        answer,   ///< the answer: a rank, or none
        gone,     ///< nothing more will come from this rank
    };
    enum class End : std::uint8_t { well, by_another, by_itself };
    static constexpr std::uint64_t none = ~std::uint64_t{0};

    Kind kind{};
    End end{};
    Label label{};
    std::uint64_t count = 0;
    std::string text{};
};

/// The transport of notices. Every rank keeps a receive posted for them; two from one rank arrive
/// in order.
class MpiNotices {
  public:
    explicit MpiNotices(MPI_Comm ranks);
    MpiNotices(const MpiNotices&) = delete;
    MpiNotices& operator=(const MpiNotices&) = delete;
    ~MpiNotices();

    static constexpr int tag = 0;

    void send(int to, const Notice& notice);
    [[nodiscard]] bool receive(int& from, Notice& notice);
    /// Checks what has been sent; true when it is all gone.
    [[nodiscard]] bool all_sent();
    /// Withdraws the posted receive: from now on notices are received only on request.
    void stop();

  private:
    struct Sent {
        std::vector<std::byte> bytes;
        MPI_Request request = MPI_REQUEST_NULL;
    };

    void post();
    [[nodiscard]] bool arrives(MPI_Status& status);

    MPI_Comm ranks_;
    std::vector<std::byte> place_; ///< receives the next one
    MPI_Request posted_ = MPI_REQUEST_NULL;
    bool stopped_ = false;
    std::optional<MPI_Status> last_; ///< of a notice that came during stop()
    std::list<Sent> sent_;           ///< a list, because MPI reads them in place
};

/// Ends the job with MPI's message, unless the code is success.
void check_mpi(int code);

} // namespace truestep::distributed
