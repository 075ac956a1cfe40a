// NCCL's functions, over ranks that are threads of this process with a simulated device each.
#include <cstring>

#include "nccl_members.hpp"
#include "nccl_values.hpp"
#include "runtime.hpp"

using namespace truestep::simulator;
using namespace truestep::simulator::nccl;

namespace {

/// Calls work(device) under its lock. Breaking a rule of the library ends all devices, as a
/// kernel's fault does.
template <class Work>
ncclResult_t locked(const Work& work) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    if (device.failed() != cudaSuccess)
        return in_group(tell(ncclUnhandledCudaError, device.why()));
    try {
        return in_group(work(device));
    } catch (const std::exception& fault) {
        device.fail(cudaErrorLaunchFailure, fault.what());
        return in_group(tell(ncclInvalidUsage, fault.what()));
    }
}

ncclResult_t invalid(const std::string& why) {
    return tell(ncclInvalidArgument, "NCCL: " + why);
}

bool overlap_elsewhere(const Call& call, int ranks) {
    const std::size_t sent = call.bytes_sent(ranks);
    const std::size_t received = call.bytes_received(ranks);
    const auto* const from = static_cast<const std::byte*>(call.send);
    const auto* const to = static_cast<const std::byte*>(call.receive);
    if (sent == 0 || received == 0 || from + sent <= to || to + received <= from)
        return false;
    const std::size_t own = call.bytes() * static_cast<std::size_t>(call.rank);
    if (call.kind == CallKind::all_gather)
        return from != to + own;
    return call.kind == CallKind::reduce_scatter ? to != from + own : from != to;
}

/// Errors of a call that can be found without other ranks.
std::string wrong_in(const Call& call, const World& world, const AddressSpace& addresses) {
    const int ranks = world.ranks();
    if (call.peer < 0 || call.peer >= ranks)
        return "there is no rank " + std::to_string(call.peer) + " in " + world.text();
    for (const auto& [at, bytes] :
         {std::pair{call.send, call.bytes_sent(ranks)},
          std::pair{static_cast<const void*>(call.receive), call.bytes_received(ranks)}})
        if (bytes > 0 && (at == nullptr || addresses.pageable(at)))
            return "a buffer is not device memory";
    return overlap_elsewhere(call, ranks) ? "what is sent and received overlap, and not in place" : "";
}

ncclResult_t asked(const char* caller, Call call, ncclComm_t comm, cudaStream_t handle) {
    ++open_groups(); // of one call, where there is none
    const ncclResult_t result = locked([&](Device& device) {
        Member* const member = Library::get().usable(comm, caller);
        if (member == nullptr)
            return invalid(std::string(caller) + " of no communicator");
        if (!known(call.type))
            return invalid(std::string(caller) + " of a type that there is not");
        call.rank = member->rank;
        if (const std::string wrong = wrong_in(call, *member->world, device.addresses); !wrong.empty())
            return invalid(std::string(caller) + " of " + member->text() + ": " + wrong);
        Stream& stream = device.stream(handle);
        if (stream.device != member->device)
            return invalid(std::string(caller) + " of " + member->text() + ": a stream of device " +
                           std::to_string(stream.device) + ", not " + std::to_string(member->device));
        if (stream.capturing)
            return invalid(std::string(caller) + " in a capture, which the simulator does not know");
        ask(comm, stream, std::make_shared<Call>(call));
        return ncclSuccess;
    });
    const ncclResult_t ended = ncclGroupEnd();
    return result != ncclSuccess ? result : ended;
}

bool blocking_of(const ncclConfig_t* config) {
    return config == nullptr || config->blocking != 0;
}

/// Ends a communicator, even after the device has failed.
ncclResult_t removed(ncclComm_t comm, const char* how, bool wait) {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    if (open_groups() > 0 && device.failed() == cudaSuccess)
        device.fail(cudaErrorLaunchFailure,
                    std::string("NCCL: ") + how + " with a group left open: it waits for the group's end");
    try {
        Member* const member = Library::get().find(comm, how);
        if (member == nullptr)
            return comm == nullptr ? ncclSuccess : invalid(std::string(how) + " of no communicator");
        ncclResult_t result = ncclSuccess;
        std::string why;
        if (wait && member->finalizing && member->state(why) == ncclInProgress)
            throw Fault(
                std::string("NCCL: ") + how + " of " + member->text() +
                " before ncclCommFinalize has ended: ncclCommGetAsyncError has not said ncclSuccess");
        if (wait)
            member->put_to_come(device);
        for (const auto& exchange : member->under_way)
            while (wait && !exchange->over() && device.failed() == cudaSuccess)
                if (!device.do_one(exchange->stream) && !device.wait_for_others(*exchange->stream))
                    result = tell(ncclSystemError, device.why());
        Library::get().remove(comm, how);
        device.note_progress();
        return result;
    } catch (const Fault& fault) {
        if (device.failed() == cudaSuccess)
            device.fail(cudaErrorLaunchFailure, fault.what());
        return tell(ncclInvalidUsage, fault.what());
    }
}

const char* words_for(ncclResult_t result) {
    constexpr std::array words{"no error",
                               "unhandled cuda error",
                               "unhandled system error",
                               "internal error",
                               "invalid argument",
                               "invalid usage",
                               "remote process exited or there was a network error",
                               "NCCL operation in progress"};
    return static_cast<std::size_t>(result) < words.size() ? words.at(static_cast<std::size_t>(result))
                                                           : "unknown result code";
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming,misc-misplaced-const): names and parameters are NCCL's
extern "C" {

ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
    thread_local std::string text;
    text = words_for(result);
    if (result != ncclSuccess && result != ncclInProgress && !told().empty())
        text += " (" + told() + ")";
    return text.c_str();
}

const char* ncclGetLastError(ncclComm_t /*comm*/) {
    return told().c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    return locked([&](Device&) {
        *id = Library::get().identity();
        return ncclSuccess;
    });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    return locked([&](Device& device) {
        if (ranks < 1 || rank < 0 || rank >= ranks)
            return invalid("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
        const ncclConfig_t fresh = NCCL_CONFIG_INITIALIZER;
        if (config != nullptr && config->magic != fresh.magic)
            return invalid("a configuration that was not made by NCCL_CONFIG_INITIALIZER");
        *comm = Library::get().join(id, ranks, rank, blocking_of(config));
        device.note_progress();
        if (!blocking_of(config))
            return ncclInProgress;
        if (open_groups() > 0) {
            await_at_end(*comm);
            return ncclSuccess;
        }
        return await(device, *Library::get().alive(*comm), "joining");
    });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
    return locked([&](Device& device) {
        Member* const parent = Library::get().usable(comm, "ncclCommSplit");
        if (parent == nullptr || (color < 0 && color != NCCL_SPLIT_NOCOLOR))
            return invalid("ncclCommSplit of no communicator, or by a color that is none");
        const bool blocking = config == nullptr ? parent->blocking : blocking_of(config);
        *made = color == NCCL_SPLIT_NOCOLOR ? nullptr : Library::get().make_child(blocking);
        World& world = *parent->world;
        if (world.splits.size() <= parent->splits)
            world.splits.push_back(std::make_shared<Split>());
        parent->split = world.splits[parent->splits++];
        parent->split->parts.resize(world.joined.size());
        parent->split->come(parent->rank, {true, color, key, *made}, world);
        device.note_progress();
        return parent->blocking ? await(device, *parent, "ncclCommSplit") : ncclInProgress;
    });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
    return locked([&](Device&) {
        const Member* const member = Library::get().usable(comm, "ncclCommCount");
        if (member == nullptr)
            return invalid("ncclCommCount of no communicator");
        *count = member->world->ranks();
        return ncclSuccess;
    });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
    return locked([&](Device&) {
        const Member* const member = Library::get().usable(comm, "ncclCommUserRank");
        if (member == nullptr)
            return invalid("ncclCommUserRank of no communicator");
        *rank = member->rank;
        return ncclSuccess;
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
    return locked([&](Device& device) {
        Member* const member = Library::get().find(comm, "ncclCommGetAsyncError");
        if (member == nullptr)
            return invalid("ncclCommGetAsyncError of no communicator");
        if (member->polls > 0 && --member->polls == 0)
            member->put_to_come(device);
        member->tidy();
        if (member->finalizing && !member->under_way.empty())
            static_cast<void>(device.do_one(member->under_way.front()->stream));
        std::string why;
        *state = member->state(why);
        if (*state == ncclInProgress)
            device.pause(); // others may be what it waits for
        else
            tell(*state, why);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    return locked([&](Device& device) {
        Member* const member = Library::get().usable(comm, "ncclCommFinalize");
        if (member == nullptr)
            return invalid("ncclCommFinalize of no communicator");
        member->finalizing = true;
        member->world->finalized[static_cast<std::size_t>(member->rank)] = true;
        device.note_progress();
        return member->blocking ? await(device, *member, "ncclCommFinalize") : ncclInProgress;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    return removed(comm, "ncclCommDestroy", true);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    return removed(comm, "ncclCommAbort", false);
}

ncclResult_t ncclGroupStart() {
    ++open_groups();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    if (open_groups() == 0)
        return locked(
            [](Device&) -> ncclResult_t { throw Fault("NCCL: ncclGroupEnd without ncclGroupStart"); });
    if (--open_groups() > 0)
        return ncclSuccess;
    const ncclResult_t result = locked([](Device& device) { return end_group(device); });
    drop_group(); // what a failed device has kept from beginning
    return result;
}

ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return asked("ncclSend",
                 {.kind = CallKind::send, .send = send, .count = count, .type = type, .peer = peer}, comm,
                 stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return asked(
        "ncclRecv",
        {.kind = CallKind::receive, .receive = receive, .count = count, .type = type, .peer = peer}, comm,
        stream);
}

ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return asked(
        "ncclAllGather",
        {.kind = CallKind::all_gather, .send = send, .receive = receive, .count = count, .type = type},
        comm, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    return asked("ncclBroadcast",
                 {.kind = CallKind::broadcast,
                  .send = send,
                  .receive = receive,
                  .count = count,
                  .type = type,
                  .peer = root},
                 comm, stream);
}

ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream) {
    return asked("ncclReduce",
                 {.kind = CallKind::reduce,
                  .send = send,
                  .receive = receive,
                  .count = count,
                  .type = type,
                  .operation = operation,
                  .peer = root},
                 comm, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
    return asked("ncclReduceScatter",
                 {.kind = CallKind::reduce_scatter,
                  .send = send,
                  .receive = receive,
                  .count = count,
                  .type = type,
                  .operation = operation},
                 comm, stream);
}

ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream) {
    return asked("ncclAllReduce",
                 {.kind = CallKind::all_reduce,
                  .send = send,
                  .receive = receive,
                  .count = count,
                  .type = type,
                  .operation = operation},
                 comm, stream);
}

} // extern "C"
// NOLINTEND(readability-identifier-naming,misc-misplaced-const)
