// Communicators: their ranks, the state of each, and what remains of a destroyed one.
#include "nccl_members.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace truestep::simulator::nccl {

namespace {

std::string text_of(const ncclUniqueId& id) {
    return {id.internal, sizeof id.internal};
}

std::shared_ptr<World> made_world(int ranks) {
    auto world = std::make_shared<World>();
    const auto count = static_cast<std::size_t>(ranks);
    world->number = Library::get().next_world();
    world->joined.resize(count);
    world->left.resize(count);
    world->finalized.resize(count);
    world->devices.resize(count);
    return world;
}

void enter(World& world, const Member& member) {
    const auto rank = static_cast<std::size_t>(member.rank);
    world.joined[rank] = true;
    world.devices[rank] = member.device;
}

} // namespace

std::string Member::text() const {
    return "rank " + std::to_string(rank) + " of " +
           (world ? world->text() : "a communicator in the making");
}

void Member::tidy() {
    std::erase_if(under_way, [](const auto& exchange) { return exchange->over(); });
}

void Member::put_to_come(Device& on) {
    for (const auto& exchange : std::exchange(to_come, {}))
        on.put(*exchange->stream, exchange);
}

ncclResult_t Member::state(std::string& why) {
    if (!world || !world->complete() || (split && !split->done))
        return ncclInProgress;
    if (world->shares_devices()) {
        why = "two ranks of " + world->text() + " have the same device";
        return ncclInvalidUsage;
    }
    if (polls > 0)
        return ncclInProgress;
    if (!finalizing)
        return ncclSuccess;
    tidy();
    for (std::size_t other = 0; other < world->finalized.size(); ++other)
        if (!world->finalized[other] && !world->left[other])
            return ncclInProgress;
    return under_way.empty() ? ncclSuccess : ncclInProgress;
}

/// The last rank makes all communicators: one for each color, with its ranks ordered by key, then
/// by rank.
void Split::come(int rank, Part part, const World& parent) {
    part.come = true;
    parts[static_cast<std::size_t>(rank)] = part;
    if (!std::ranges::all_of(parts, &Part::come))
        return;
    done = true;
    std::map<int, std::vector<std::size_t>> ranks_of;
    for (std::size_t other = 0; other < parts.size(); ++other)
        if (parts[other].child != nullptr)
            ranks_of[parts[other].color].push_back(other);
    for (auto& [color, ranks] : ranks_of) {
        std::ranges::stable_sort(ranks, {}, [&](std::size_t other) { return parts[other].key; });
        const auto world = made_world(static_cast<int>(ranks.size()));
        for (std::size_t now = 0; now < ranks.size(); ++now) {
            Member* const child = Library::get().alive(parts[ranks[now]].child);
            if (child == nullptr)
                continue; // it has been given up meanwhile: the others wait for it
            child->world = world;
            child->rank = static_cast<int>(now);
            child->device = parent.devices[ranks[now]];
            enter(*world, *child);
        }
    }
}

Library& Library::get() {
    static Library library;
    return library;
}

ncclUniqueId Library::identity() {
    ncclUniqueId id{};
    const std::uint64_t number = ++made_;
    std::memcpy(id.internal, "simulated", 10);
    std::memcpy(id.internal + 16, &number, sizeof number);
    identities_[text_of(id)] = nullptr;
    return id;
}

ncclComm_t Library::add(std::unique_ptr<Member> member) {
    member->random.seed(next_seed());
    // Each number is used once, so that late uses of a handle are found.
    auto* const handle = reinterpret_cast<ncclComm_t>((++made_) << 4U);
    members_[handle] = std::move(member);
    return handle;
}

ncclComm_t Library::join(const ncclUniqueId& id, int ranks, int rank, bool blocking) {
    const auto found = identities_.find(text_of(id));
    if (found == identities_.end())
        throw Fault(
            "NCCL: rank " + std::to_string(rank) +
            " joins by an identity that no ncclGetUniqueId of this process has made, or by which all "
            "ranks have joined already");
    if (!found->second)
        found->second = made_world(ranks);
    const std::shared_ptr<World> world = found->second;
    if (world->ranks() != ranks)
        throw Fault("NCCL: rank " + std::to_string(rank) + " joins " + world->text() + " as one of " +
                    std::to_string(ranks));
    if (world->joined[static_cast<std::size_t>(rank)])
        throw Fault("NCCL: rank " + std::to_string(rank) + " joins " + world->text() + " twice");
    auto made = std::make_unique<Member>();
    made->world = world;
    made->rank = rank;
    made->device = current_device();
    made->blocking = blocking;
    enter(*world, *made);
    if (world->complete())
        identities_.erase(found);
    return add(std::move(made));
}

ncclComm_t Library::make_child(bool blocking) {
    auto made = std::make_unique<Member>();
    made->blocking = blocking;
    return add(std::move(made));
}

Member* Library::alive(ncclComm_t comm) const {
    const auto found = members_.find(comm);
    return found == members_.end() ? nullptr : found->second.get();
}

Member* Library::find(ncclComm_t comm, const char* caller) {
    if (comm == nullptr)
        return nullptr;
    if (const auto found = members_.find(comm); found != members_.end())
        return found->second.get();
    const auto gone = gone_.find(comm);
    throw Fault(std::string("NCCL: ") + caller + " of " +
                (gone == gone_.end() ? "an unknown communicator" : gone->second));
}

Member* Library::usable(ncclComm_t comm, const char* caller) {
    Member* const member = find(comm, caller);
    if (member == nullptr)
        return nullptr;
    std::string why;
    if (member->finalizing)
        throw Fault(std::string("NCCL: ") + caller + " of " + member->text() + " after ncclCommFinalize");
    if (member->state(why) == ncclInProgress)
        throw Fault(std::string("NCCL: ") + caller + " of " + member->text() +
                    " while it is in progress: ncclCommGetAsyncError has not said ncclSuccess yet");
    return member;
}

void Library::remove(ncclComm_t comm, const char* how) {
    const auto found = members_.find(comm);
    Member& member = *found->second;
    for (const auto& all : {member.to_come, member.under_way})
        for (const auto& exchange : all)
            exchange->abort();
    if (member.world)
        member.world->left[static_cast<std::size_t>(member.rank)] = true;
    gone_[comm] = member.text() + " after " + how;
    members_.erase(found);
}

} // namespace truestep::simulator::nccl
