// Groups of ranks that the gate runs implementations on.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>

namespace truestep::gate {

/// A source of ranks: threads, or the processes of an MPI job.
class Group {
  public:
    virtual ~Group() = default;
    [[nodiscard]] virtual std::string name() const = 0;
    [[nodiscard]] virtual bool takes(int workers) const = 0;

    using Work = std::function<void(distributed::Communicator&)>;
    /// Runs the work on so many ranks and returns when all have ended; throws if one has failed.
    virtual void run(int workers, const Work& work) const = 0;
    /// The same, where no call of MPI has a greater count than `most`, so that larger data goes in pieces.
    /// 0 is no limit.
    virtual void run_in_pieces(int workers, std::size_t /*most*/, const Work& work) const {
        run(workers, work);
    }

    using PeerWork = std::function<void(distributed::Peers&)>;
    /// Runs work that sends messages between two ranks; a failure ends only the ranks that need the failed
    /// one. A group supports this only if it overrides the function.
    virtual void run_peers(int workers, const PeerWork& work) const;
    virtual void run_peers_in_pieces(int workers, std::size_t /*most*/, const PeerWork& work) const {
        run_peers(workers, work);
    }

    using Bytes = std::vector<std::uint8_t>;
    /// The records of all ranks that have just worked, on every process. `mine` makes the record of a rank
    /// of this process.
    [[nodiscard]] virtual std::vector<Bytes> exchange(int workers,
                                                      const std::function<Bytes(int rank)>& mine) const = 0;

    /// Whether it is true on any rank; the same answer everywhere.
    [[nodiscard]] virtual bool any(bool here) const { return here; }
    /// Rank 0's text, on all ranks.
    [[nodiscard]] virtual std::string told(const std::string& by_rank_0) const { return by_rank_0; }
    /// Ends the other processes too, if there are any.
    virtual void abort(const std::string& /*reason*/) const {}
    /// Whether this process prints and writes files for all.
    [[nodiscard]] virtual bool speaks() const { return true; }
};

/// Any number of threads of this process.
[[nodiscard]] std::shared_ptr<const Group> make_thread_group(std::chrono::milliseconds timeout);

/// The first P processes of an MPI job as P ranks. MPI has to be started. A rank that fails ends the job.
[[nodiscard]] std::shared_ptr<const Group> make_mpi_group(
    std::chrono::milliseconds timeout, std::function<std::string()> doing = [] { return std::string(); });

/// A folder for temporary files, removed at the end of the process: in $TRUESTEP_SCRATCH, $TMPDIR, or
/// memory. It is the same on all ranks, which have to share that file system.
[[nodiscard]] std::string scratch_folder(const Group& group);
/// Unique among the processes that share a file system.
[[nodiscard]] std::string process_name();

} // namespace truestep::gate
