#pragma once

// What an ncclComm_t stands for, and the groups of a thread.

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

    /// What ncclCommGetAsyncError says of it, and why if that is an error.
    [[nodiscard]] ncclResult_t state(std::string& why);
    void put_to_come(Device& on);
    /// Drops what is over.
    void tidy();
    /// "rank 1 of communicator 2 (4 ranks)".
    [[nodiscard]] std::string text() const;
};

/// All that the process has of NCCL. Whoever uses it holds the device's mutex.
class Library {
  public:
    static Library& get();

    [[nodiscard]] ncclUniqueId identity();
    /// Throws Fault where the identity is none, or the rank has been there.
    ncclComm_t join(const ncclUniqueId& id, int ranks, int rank, bool blocking);
    ncclComm_t make_child(bool blocking);
    [[nodiscard]] int next_world() { return ++worlds_; }
    [[nodiscard]] Member* alive(ncclComm_t comm) const;
    /// nullptr for null. Throws Fault for what is gone.
    [[nodiscard]] Member* find(ncclComm_t comm, const char* caller);
    /// The same, of one that may be given work: it is in no progress.
    [[nodiscard]] Member* usable(ncclComm_t comm, const char* caller);
    /// `how`: by which function. What is under way ends.
    void remove(ncclComm_t comm, const char* how);

  private:
    ncclComm_t add(std::unique_ptr<Member> member);

    std::map<ncclComm_t, std::unique_ptr<Member>> members_;
    std::map<ncclComm_t, std::string> gone_;
    std::map<std::string, std::shared_ptr<World>> identities_; ///< that not all ranks have joined by
    std::uint64_t made_ = 0;
    int worlds_ = 0;
};

/// Work of this thread for a communicator, now or at the end of the group.
void ask(ncclComm_t comm, Stream& stream, const std::shared_ptr<Call>& call);
/// Begins what the thread's group holds. ncclInProgress where a communicator says so.
ncclResult_t end_group(Device& device);
void drop_group();
/// Notes an error in an open group: its end tells it again.
ncclResult_t in_group(ncclResult_t result);
/// In an open group for its end, else at once: that all ranks of it have come.
void await_at_end(ncclComm_t comm);
/// Until it says success, others going on meanwhile; an error where patience ends.
ncclResult_t await(Device& device, Member& member, const char* what);
/// What ncclGetErrorString says of the thread's last error.
ncclResult_t tell(ncclResult_t result, const std::string& why);
[[nodiscard]] const std::string& told();

} // namespace truestep::simulator::nccl
