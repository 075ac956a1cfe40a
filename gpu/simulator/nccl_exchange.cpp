// Calls that meet: whether they fit, which ranks are missing, and which memory must not be touched
// meanwhile.
#include "nccl_exchange.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include <truestep/simulator/fault.hpp>

#include "nccl_values.hpp"

namespace truestep::simulator::nccl {

namespace {

const char* name_of(CallKind kind) {
    constexpr std::array names{"send",   "receive",        "all-gather", "broadcast",
                               "reduce", "reduce-scatter", "all-reduce"};
    return names.at(static_cast<std::size_t>(kind));
}

bool has_root(CallKind kind) {
    return kind == CallKind::broadcast || kind == CallKind::reduce;
}

bool adds(CallKind kind) {
    return kind == CallKind::reduce || kind == CallKind::reduce_scatter || kind == CallKind::all_reduce;
}

/// Whether the two can belong to one collective, or be the ends of one message.
bool fit(const Call& one, const Call& other) {
    if (one.count != other.count || one.type != other.type)
        return false;
    if (!one.collective())
        return true;
    return one.kind == other.kind && (!has_root(one.kind) || one.peer == other.peer) &&
           (!adds(one.kind) || one.operation == other.operation);
}

std::string of_rank(const Call& call) {
    return "rank " + std::to_string(call.rank) + " has " + call.text();
}

} // namespace

std::size_t Call::bytes() const {
    return count * size_of(type);
}

std::size_t Call::bytes_sent(int ranks) const {
    if (kind == CallKind::receive || (kind == CallKind::broadcast && rank != peer))
        return 0;
    return bytes() * (kind == CallKind::reduce_scatter ? static_cast<std::size_t>(ranks) : 1);
}

std::size_t Call::bytes_received(int ranks) const {
    if (kind == CallKind::send || (kind == CallKind::reduce && rank != peer))
        return 0;
    return bytes() * (kind == CallKind::all_gather ? static_cast<std::size_t>(ranks) : 1);
}

std::string Call::text() const {
    std::string all = std::string(name_of(kind)) + " " + std::to_string(number);
    if (!collective())
        all += (kind == CallKind::send ? " to rank " : " from rank ") + std::to_string(peer);
    all += " of " + std::to_string(count) + " " + name_of(type);
    if (has_root(kind))
        all += ", root " + std::to_string(peer);
    return all;
}

bool Match::ready() const {
    return !done && std::ranges::all_of(calls, [](const auto& call) { return call && call->begun; });
}

bool World::complete() const {
    return std::ranges::all_of(joined, std::identity{});
}

bool World::shares_devices() const {
    return std::set<int>(devices.begin(), devices.end()).size() < devices.size();
}

std::string World::text() const {
    return "communicator " + std::to_string(number) + " (" + std::to_string(ranks()) + " ranks)";
}

void World::add(const std::shared_ptr<Call>& call) {
    Key key{-1, -1, call->number};
    std::size_t place = static_cast<std::size_t>(call->rank);
    if (!call->collective()) {
        const bool sends = call->kind == CallKind::send;
        key = {sends ? call->rank : call->peer, sends ? call->peer : call->rank, call->number};
        place = sends ? 0 : 1;
    }
    auto& match = under_way[key];
    if (!match) {
        match = std::make_shared<Match>();
        match->calls.resize(call->collective() ? joined.size() : 2);
    }
    for (const auto& other : match->calls)
        if (other && !fit(*call, *other))
            throw Fault("NCCL: calls of " + text() + " that do not fit: " + of_rank(*other) + ", " +
                        of_rank(*call) + " in its place");
    match->calls[place] = call;
    call->match = match;
    // No rank will look it up again, since all participants hold it.
    if (std::ranges::all_of(match->calls, [](const auto& one) { return one != nullptr; }))
        under_way.erase(key);
}

Exchange::Exchange(std::shared_ptr<World> world, int rank, std::vector<std::shared_ptr<Call>> calls,
                   std::shared_ptr<Exchange> before)
    : world_(std::move(world)), rank_(rank), calls_(std::move(calls)), before_(std::move(before)) {}

bool Exchange::all_done() const {
    return std::ranges::all_of(calls_, [](const auto& call) { return call->match->done; });
}

bool Exchange::can_go_on() const {
    if (over_)
        return true;
    if (!begun_)
        return !before_ || before_->over();
    return all_done() || std::ranges::any_of(calls_, [](const auto& call) { return call->match->ready(); });
}

bool Exchange::go_on(std::mt19937_64& random) {
    if (over_)
        return true;
    if (!begun_) {
        begin();
        return false;
    }
    std::vector<Match*> ready;
    for (const auto& call : calls_)
        if (call->match->ready())
            ready.push_back(call->match.get());
    if (!ready.empty()) {
        Match& next = *ready[random() % ready.size()];
        carry_out(next, random);
        next.done = true;
    }
    if (all_done())
        abort();
    return over_;
}

/// The exchange is over: it is finished, or no longer wanted.
void Exchange::abort() {
    for (const auto& call : calls_)
        if (!call->match->done)
            call->begun = false; // a peer that still waits for it waits for ever
    over_ = true;
    land();
}

void Exchange::begin() {
    begun_ = true;
    before_.reset();
    for (const auto& call : calls_) {
        call->begun = true;
        fly(*call, call->send, call->bytes_sent(world_->ranks()), false);
        fly(*call, call->receive, call->bytes_received(world_->ranks()), true);
    }
}

/// Calls of one group may overlap where the library allows it: in place, and where all only read.
void Exchange::fly(const Call& call, const void* at, std::size_t bytes, bool written) {
    if (bytes == 0)
        return;
    const std::string who = "rank " + std::to_string(rank_) + "'s " + call.text() + " in " + world_->text();
    const auto begin = reinterpret_cast<std::uint64_t>(at);
    Allocation* const allocation = Device::get().memory().find(begin);
    if (allocation == nullptr || !allocation->holds(begin, bytes))
        throw Fault("NCCL: " + std::to_string(bytes) + " bytes that go beyond an allocation, which " + who +
                    (written ? " receives" : " sends"));
    for (const Flight& other : allocation->in_flight)
        if (other.of != this && (written || other.written) && begin < other.end &&
            other.begin < begin + bytes)
            throw Fault("NCCL: " + who + (written ? " receives" : " sends") + other.text());
    if (!written && allocation->written.kept() && !allocation->written.all(begin - allocation->base, bytes))
        throw Fault("NCCL: uninitialized memory, which " + who + " sends");
    allocation->in_flight.push_back({begin, begin + bytes, written, this, who});
}

void Exchange::land() {
    Memory& memory = Device::get().memory();
    for (const auto& call : calls_)
        for (const void* const at : {call->send, static_cast<const void*>(call->receive)})
            if (Allocation* const allocation = memory.find(reinterpret_cast<std::uint64_t>(at)))
                std::erase_if(allocation->in_flight, [this](const Flight& one) { return one.of == this; });
}

std::string Exchange::waits_for() const {
    if (!begun_)
        return "rank " + std::to_string(rank_) + " waits for what it has begun before in " + world_->text();
    std::string text;
    for (const auto& call : calls_) {
        if (call->match->done)
            continue;
        text += (text.empty() ? "rank " + std::to_string(rank_) + " waits in " : ", ") + call->text();
        for (std::size_t place = 0; place < call->match->calls.size(); ++place) {
            const auto& other = call->match->calls[place];
            if (other && other->begun)
                continue;
            const int who = call->collective() ? static_cast<int>(place) : call->peer;
            text += " for rank " + std::to_string(who) +
                    (world_->left[static_cast<std::size_t>(who)] ? ", which has left"
                     : other                                     ? ", whose stream has not come to it"
                                                                 : ", which has not come");
        }
    }
    return text + " (" + world_->text() + ")";
}

} // namespace truestep::simulator::nccl
