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
/// distributed::Aborted and one text, found while the host waits for the stream. Throws truestep::Error
/// where two ranks have the same device.
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
/// to do with. Throws truestep::Error where two ranks have the same device.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_nccl_peers(distributed::Peers& ranks, const CudaStream& stream, const NcclOptions& options = {});

/// The same without any order between the messages of several ranks: for pipelines. Of what is named
/// `on_device`, messages between this rank and those in `with` go from device to device, all else through
/// `ranks`. Each direction between two ranks has a communicator and a stream of its own, so a message that
/// is not taken yet keeps no other, and no computation, waiting. All of `with` have to make theirs, and end
/// them, too: both meet.
///
/// A message is told through `ranks` when it is sent, by a record of its size; a device begins to receive
/// when the host has seen that, and so who leaves, dies, or sends another message than is awaited is found
/// and named as `ranks` does it. Otherwise as above. The stream is this one's alone: it is watched while
/// the host waits for it. What has been asked for is taken in the end, whether anybody has waited for it or
/// not.
///
/// A host that stands still while its device waits for another rank to receive waits as well: CUDA does
/// that where memory is let go, some of it where it is allocated, and where a kernel is loaded for the
/// first time (set CUDA_MODULE_LOADING=EAGER). Whoever ends by an error says so first, by abandon(), as
/// ends of MAPL do.
[[nodiscard]] std::unique_ptr<distributed::Peers>
make_nccl_links(distributed::Peers& ranks, const CudaStream& stream,
                std::vector<distributed::Traffic> on_device, std::vector<int> with,
                const NcclOptions& options = {});

/// Library, settings in the environment and how the devices of this machine reach each other, in one line.
[[nodiscard]] std::string nccl_description();

} // namespace truestep::gpu
