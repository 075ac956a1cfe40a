// Declares the communicator and the peers of ranks that have a device each and exchange by NCCL.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/cuda_stream.hpp>

namespace truestep::gpu {

struct NcclOptions {
    /// For each exchange, and for the ranks to find each other.
    std::chrono::milliseconds timeout{60'000};
};

/// Ranks with a device each, in one process or many. They find each other through `ranks` (threads,
/// or MPI), which carries the small records too and has to outlive this. Exchanged data is in the
/// device's memory. An exchange is work on the stream; masks use a second stream and a second
/// communicator. `ordered` exchanges move data and add nothing. Where all parts have the same size,
/// ncclReduceScatter and ncclAllGather serve; otherwise one ncclReduce or ncclBroadcast for each
/// rank.
///
/// An NCCL error, or ranks that miss the timeout, end all ranks with distributed::Aborted and the
/// same text. The host finds out while it waits for the stream. Throws truestep::Error if two ranks
/// have the same device.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_nccl_communicator(distributed::Communicator& ranks, const CudaStream& stream,
                       const NcclOptions& options = {});

/// Messages between two ranks with a device each: parameters go from device to device, everything
/// else through `ranks`, which has to outlive this. All messages that are sent or asked for before
/// the first wait form one group, ncclSend and ncclRecv with each neighbour, on the stream. Only
/// the construction involves all ranks. A rank that receives in such a group also sends in it: a
/// round of gossip.
///
/// Before a group, the host awaits an empty message from each neighbour. So `ranks` finds and names
/// a neighbour that has left, failed or does not come; the exchange with the others still takes
/// place. A neighbour that waits for another makes this rank wait, too, which other Peers do not. If a
/// group fails or exceeds the timeout, only this rank ends with distributed::Aborted, which names its
/// neighbours. Throws truestep::Error if two ranks have the same device.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_nccl_peers(distributed::Peers& ranks, const CudaStream& stream, const NcclOptions& options = {});

/// Messages for pipelines: as above, but without any order between the messages of several ranks.
/// Traffic named in `on_device` between this rank and those in `with` goes from device to device,
/// everything else through `ranks`. Each direction between two ranks has its own communicator and
/// stream, so an untaken message delays neither other messages nor computation. All ranks in `with`
/// have to construct theirs, and destroy them: both are collective.
///
/// The sender announces each message through `ranks` with a record of its size. A device begins to
/// receive when the host has seen the record. So `ranks` finds and names a rank that leaves, dies,
/// or sends an unexpected message. Otherwise as above. The stream must not be shared: it is watched
/// while the host waits for it. Every message that was asked for is received in the end, whether
/// awaited or not.
///
/// Sometimes CUDA blocks the host while its device waits for another rank to receive: where memory
/// is freed, sometimes where it is allocated, and where a kernel is loaded for the first time (set
/// CUDA_MODULE_LOADING=EAGER). A rank that ends by an error calls abandon() first, as ends of MAPL
/// do.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_nccl_links(distributed::Peers& ranks, const CudaStream& stream,
                std::vector<distributed::Traffic> on_device, std::vector<int> with,
                const NcclOptions& options = {});

/// One line: the library, its settings in the environment, and how the devices of this machine
/// reach each other.
[[nodiscard]] std::string nccl_description();

} // namespace truestep::gpu
