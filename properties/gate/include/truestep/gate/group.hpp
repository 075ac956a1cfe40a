#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::gate {

/// Where ranks come from.
class Group {
  public:
    virtual ~Group() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual bool takes(int workers) const = 0;

    using Work = std::function<void(distributed::Communicator&)>;
    /// Runs the work on so many ranks and returns when all have ended; throws if one has failed.
    virtual void run(int workers, const Work& work) const = 0;

    using PeerWork = std::function<void(distributed::Peers&)>;
    /// The same of work that sends messages between two ranks, and ends only those that need a failed one.
    /// Not of a group that does not say so.
    virtual void run_peers(int workers, const PeerWork& work) const;

    using Bytes = std::vector<std::uint8_t>;
    /// One record of each of the ranks that have just worked, everywhere. `mine` belongs to a rank of this
    /// process.
    [[nodiscard]] virtual std::vector<Bytes> exchange(int workers,
                                                      const std::function<Bytes(int rank)>& mine) const = 0;

    /// True everywhere if it is anywhere.
    [[nodiscard]] virtual bool any(bool here) const { return here; }
    /// What rank 0 says, everywhere.
    [[nodiscard]] virtual std::string told(const std::string& by_rank_0) const { return by_rank_0; }
    /// Ends the other processes too, where there are any.
    virtual void abort(const std::string& /*reason*/) const {}
    /// Whether this process speaks for all: prints, writes files.
    [[nodiscard]] virtual bool speaks() const { return true; }
};

/// Threads of this process, any number.
[[nodiscard]] std::shared_ptr<const Group> make_thread_group(std::chrono::milliseconds timeout);

/// The processes of an MPI job: P ranks are the first P of them. MPI has been started. A rank that fails
/// ends the job.
[[nodiscard]] std::shared_ptr<const Group> make_mpi_group(
    std::chrono::milliseconds timeout, std::function<std::string()> doing = [] { return std::string(); });

/// A folder for what does not last, removed at the end of the process: in $TRUESTEP_SCRATCH, $TMPDIR, or
/// memory. The same on all ranks, which have to share that file system.
[[nodiscard]] std::string scratch_folder(const Group& group);

} // namespace truestep::gate
