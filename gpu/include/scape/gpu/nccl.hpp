#pragma once

#include <chrono>
#include <memory>
#include <string>

#include <scape/distributed/communicator.hpp>
#include <scape/distributed/peers.hpp>
#include <scape/gpu/cuda_stream.hpp>

namespace scape::gpu {

struct NcclOptions {
    /// For an exchange, and for the ranks to find each other.
    std::chrono::milliseconds timeout{60'000};
};

/// Ranks with a device each, in one process or many. They find each other through `ranks` - threads, or MPI
/// - which carries the small records too, and has to outlive this. What is exchanged stands in the device's
/// memory; an exchange is work on the stream, and masks travel on one beside it, over a communicator of
/// their own. `ordered` exchanges move data and add nothing; ncclReduceScatter and ncclAllGather serve
/// where all parts are of one size, and one ncclReduce or ncclBroadcast for each rank where they are not.
///
/// An error of NCCL's, or ranks that do not come within the timeout, end all ranks with
/// distributed::Aborted and one text, found while the host waits for the stream. Throws scape::Error where
/// two ranks have the same device.
[[nodiscard]] std::unique_ptr<distributed::Communicator>
make_nccl_communicator(distributed::Communicator& ranks, const CudaStream& stream,
                       const NcclOptions& options = {});

/// Messages between two ranks with a device each: parameters go from device to device, all else through
/// `ranks`, which has to outlive this. What is sent and asked for before the first wait goes as one group,
/// ncclSend and ncclRecv with each neighbour, on the stream; nothing but the construction is of all ranks.
/// Whoever gets a message in such a group sends one, too: a round of gossip.
///
/// Before a group the host hears by an empty message from each neighbour that it is there. So one that has
/// left, failed or does not come is found as `ranks` finds it, and named; and a neighbour that waits for
/// another makes this rank wait, too, which Peers elsewhere do not. What fails within a group, or
/// takes longer than the timeout, ends this rank alone with distributed::Aborted, which names those it had
/// to do with. Throws scape::Error where two ranks have the same device.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_nccl_peers(distributed::Peers& ranks, const CudaStream& stream, const NcclOptions& options = {});

/// Library, settings in the environment and how the devices of this machine reach each other, in one line.
[[nodiscard]] std::string nccl_description();

} // namespace scape::gpu
