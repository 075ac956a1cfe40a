// Groups: what a thread requests in a group begins at the end of the outermost one.
#include <algorithm>

#include "nccl_members.hpp"

namespace truestep::simulator::nccl {

namespace {

struct PendingCall {
    ncclComm_t comm;
    Stream* stream;
    std::shared_ptr<Call> call;
};
struct Group {
    std::vector<PendingCall> asked;
    std::vector<ncclComm_t> joining;
    ncclResult_t failed = ncclSuccess;
};
thread_local Group group;

struct Last {
    ncclResult_t result = ncclSuccess;
    std::string why;
};
thread_local Last last;

std::uint64_t next_number(Member& member, const Call& call) {
    return call.collective() ? member.collectives++
                             : member.messages[{call.kind == CallKind::send, call.peer}]++;
}

/// All calls of a group on one communicator are one piece of work.
void begin(Device& device, Member& member, const std::vector<PendingCall>& asked) {
    std::vector<std::shared_ptr<Call>> calls;
    for (const PendingCall& one : asked) {
        if (one.stream != asked.front().stream)
            throw Fault("NCCL: a group of " + member.text() +
                        " on several streams, which the simulator "
                        "does not know");
        one.call->number = next_number(member, *one.call);
        calls.push_back(one.call);
    }
    for (const auto& call : calls)
        member.world->add(call);
    auto exchange = std::make_shared<Exchange>(member.world, member.rank, calls, member.last);
    exchange->stream = asked.front().stream;
    member.tidy();
    member.last = exchange;
    member.under_way.push_back(exchange);
    member.to_come.push_back(exchange);
    constexpr unsigned most_polls = 4;
    if (!member.blocking)
        member.polls = static_cast<int>(member.random() % most_polls);
    if (member.polls == 0)
        member.put_to_come(device);
}

} // namespace

ncclResult_t tell(ncclResult_t result, const std::string& why) {
    last = {result, why};
    return result;
}

const std::string& told() {
    return last.why;
}

ncclResult_t in_group(ncclResult_t result) {
    if (open_groups() > 0 && result != ncclSuccess && result != ncclInProgress)
        group.failed = result;
    return result;
}

void ask(ncclComm_t comm, Stream& stream, const std::shared_ptr<Call>& call) {
    group.asked.push_back({comm, &stream, call});
}

void await_at_end(ncclComm_t comm) {
    group.joining.push_back(comm);
}

ncclResult_t await(Device& device, Member& member, const char* what) {
    const auto begin = std::chrono::steady_clock::now();
    std::string why;
    for (;;) {
        const ncclResult_t state = member.state(why);
        if (state != ncclInProgress)
            return state == ncclSuccess ? state : tell(state, why);
        if (device.failed() != cudaSuccess)
            return tell(ncclUnhandledCudaError, device.why());
        if (std::chrono::steady_clock::now() - begin >= device.patience)
            break;
        if (member.under_way.empty() || !device.do_one(member.under_way.front()->stream))
            device.pause();
    }
    std::string missing;
    for (std::size_t rank = 0; member.world && rank < member.world->joined.size(); ++rank)
        if (!member.world->joined[rank] || (member.finalizing && !member.world->finalized[rank]))
            missing += (missing.empty() ? " rank " : ", rank ") + std::to_string(rank);
    return tell(ncclSystemError, std::string(what) + " of " + member.text() + " did not end within " +
                                     std::to_string(device.patience.count()) +
                                     " ms; not there:" + (missing.empty() ? " some rank" : missing));
}

void drop_group() {
    group = {};
}

ncclResult_t end_group(Device& device) {
    const Group ended = std::exchange(group, {});
    if (ended.failed != ncclSuccess)
        return ended.failed; // none of it has begun
    ncclResult_t result = ncclSuccess;
    for (ncclComm* const comm : ended.joining) {
        Member* const member = Library::get().alive(comm);
        if (member == nullptr)
            continue;
        const ncclResult_t come = member->blocking ? await(device, *member, "joining") : ncclInProgress;
        if (come != ncclSuccess && come != ncclInProgress)
            return come;
        result = come == ncclSuccess ? result : come;
    }
    std::vector<PendingCall> left = ended.asked;
    while (!left.empty()) {
        ncclComm* const comm = left.front().comm;
        const auto others = std::stable_partition(left.begin(), left.end(),
                                                  [&](const PendingCall& one) { return one.comm == comm; });
        Member* const member = Library::get().find(comm, "ncclGroupEnd");
        begin(device, *member, {left.begin(), others});
        if (!member->blocking)
            result = ncclInProgress;
        left.erase(left.begin(), others);
    }
    device.note_progress();
    return result;
}

} // namespace truestep::simulator::nccl
