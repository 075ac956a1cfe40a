#pragma once

// The object behind an ncclComm_t, and the groups of a thread.

#include <random>
#include <set>
#include <utility>

#include <truestep/simulator/fault.hpp>

#include "nccl_exchange.hpp"

namespace truestep::simulator::nccl {

/// One ncclCommSplit of all ranks.
struct Split {
    struct Part {
        bool come = false;
        int color = 0;
        int key = 0;
        ncclComm_t child = nullptr; ///< or null for no color
    };
    std::vector<Part> parts; ///< by rank
    bool done = false;

    void come(int rank, Part part, const World& parent);
};

/// One rank of a communicator.
struct Member {
    std::shared_ptr<World> world; ///< null until the split that makes it is done
    int rank = 0;
    int device = 0;
    bool blocking = true;
    bool finalizing = false;
    int polls = 0; ///< how often it still says that it is in progress
    std::uint64_t collectives = 0;
    std::map<std::pair<bool, int>, std::uint64_t> messages; ///< to (true) or from a rank
    std::uint64_t splits = 0;
    std::shared_ptr<Split> split;                   ///< the last one
    std::vector<std::shared_ptr<Exchange>> to_come; ///< once it says so no more
    std::vector<std::shared_ptr<Exchange>> under_way;
    std::shared_ptr<Exchange> last;
    std::mt19937_64 random;

    /// The result of ncclCommGetAsyncError, and the reason if that is an error.
    [[nodiscard]] ncclResult_t state(std::string& why);
    void put_to_come(Device& on);
    /// Drops finished exchanges.
    void tidy();
    /// "rank 1 of communicator 2 (4 ranks)".
    [[nodiscard]] std::string text() const;
};

/// The NCCL state of the process. Callers hold the device's mutex.
class Library {
  public:
    static Library& get();

    [[nodiscard]] ncclUniqueId identity();
    /// Throws Fault if the identity is invalid, or the rank has joined before.
    ncclComm_t join(const ncclUniqueId& id, int ranks, int rank, bool blocking);
    ncclComm_t make_child(bool blocking);
    [[nodiscard]] int next_world() { return ++worlds_; }
    [[nodiscard]] Member* alive(ncclComm_t comm) const;
    /// nullptr for null. Throws Fault for a destroyed communicator.
    [[nodiscard]] Member* find(ncclComm_t comm, const char* caller);
    /// The same for a communicator that may be given work, so it must not be in progress.
    [[nodiscard]] Member* usable(ncclComm_t comm, const char* caller);
    /// `how` names the calling function. Work under way ends.
    void remove(ncclComm_t comm, const char* how);

  private:
    ncclComm_t add(std::unique_ptr<Member> member);

    std::map<ncclComm_t, std::unique_ptr<Member>> members_;
    std::map<ncclComm_t, std::string> gone_;
    std::map<std::string, std::shared_ptr<World>> identities_; ///< that not all ranks have joined by
    std::uint64_t made_ = 0;
    int worlds_ = 0;
};

/// Requests work of this thread for a communicator, now or at the end of the group.
void ask(ncclComm_t comm, Stream& stream, const std::shared_ptr<Call>& call);
/// Begins the calls of the thread's group. Returns ncclInProgress if a communicator reports that.
ncclResult_t end_group(Device& device);
void drop_group();
/// Notes an error in an open group, whose end reports it again.
ncclResult_t in_group(ncclResult_t result);
/// Awaits all ranks of the communicator: at the end of an open group, else at once.
void await_at_end(ncclComm_t comm);
/// Waits for success while other threads run; an error when `patience` ends.
ncclResult_t await(Device& device, Member& member, const char* what);
/// Sets the thread's last error, which ncclGetErrorString and ncclGetLastError report.
ncclResult_t tell(ncclResult_t result, const std::string& why);
[[nodiscard]] const std::string& told();

} // namespace truestep::simulator::nccl
