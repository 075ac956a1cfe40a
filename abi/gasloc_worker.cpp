#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <scape/distributed/in_process_peers.hpp>
#include <scape/gasloc/checkpoint.hpp>
#include <scape/gasloc/worker.hpp>
#include <scape/problem/error.hpp>

#include "gasloc_problem.hpp"
#include "peers.hpp"
#include "values.hpp"

struct scape_gasloc_worker {
    scape_gasloc_problem problem;
    scape_peers peers;
    std::unique_ptr<scape::gasloc::Worker> worker{};
    scape::gasloc::Index rounds = 0;
    bool ended = false;               ///< by a round that failed
    std::vector<float> gathered{};    ///< a gradient that came in pieces
    scape::gasloc::State looked_at{}; ///< by whoever looked last
};

namespace scape::abi {

namespace {

using gasloc::State;
using gasloc::Worker;

scape_gasloc_worker& alive(scape_gasloc_worker* worker) {
    need(worker, "worker");
    return *worker;
}

/// One that may begin anew.
scape_gasloc_worker& going_on(scape_gasloc_worker* worker) {
    if (alive(worker).ended)
        throw Error("the worker has ended in a round that failed; make another, over other peers");
    return *worker;
}

scape_peers peers_for(const scape_gasloc_problem& problem, const scape_peers* given) {
    scape_peers peers = given != nullptr ? *given : scape_peers{distributed::InProcessPeers(1).peers(0)};
    if (peers.peers->size() != problem.workers)
        throw Error("the problem has " + std::to_string(problem.workers) + " workers and the peers are " +
                    std::to_string(peers.peers->size()) + " ranks; make the problem with as many workers");
    return peers;
}

/// Where it cannot be had, what there is stays.
void begin(scape_gasloc_worker& handle, State state) {
    const gasloc::Index rounds = state.rounds;
    if (handle.worker)
        handle.worker->restore(std::move(state));
    else
        handle.worker =
            std::make_unique<Worker>(handle.problem.settings, std::move(state), *handle.peers.peers,
                                     gasloc::Options{handle.problem.threads});
    handle.peers.settle();
    handle.rounds = rounds;
}

std::unique_ptr<scape_gasloc_worker> make_worker(const scape_gasloc_problem& problem,
                                                 const scape_peers* peers,
                                                 std::span<const scape_values> parameters) {
    auto handle =
        std::make_unique<scape_gasloc_worker>(scape_gasloc_worker{problem, peers_for(problem, peers)});
    const auto start = floats(parameters, problem.layout.size(), handle->gathered, "parameters");
    begin(*handle, gasloc::first_state(problem.settings, start));
    handle->gathered = {};
    return handle;
}

gasloc::Round make_round(scape_gasloc_worker& handle) {
    // Unless it returns: whoever has waited in vain knows less than its neighbours.
    handle.ended = true;
    gasloc::Round round = handle.worker->round();
    handle.rounds = round.number;
    handle.peers.settle();
    handle.ended = false;
    return round;
}

std::vector<float> copied(const scape_values& values, std::size_t size, const std::string& what) {
    std::vector<float> room;
    const auto given = floats({&values, 1}, static_cast<std::int64_t>(size), room, "restore: " + what);
    return {given.begin(), given.end()};
}

State state_of(const scape_gasloc_worker& handle, const scape_gasloc_state& given) {
    need_size(given.struct_size, sizeof(scape_gasloc_state), "scape_gasloc_state");
    if (given.rounds < 0 || given.inner_steps < 0)
        throw Error("restore: it has " + std::to_string(given.rounds) + " rounds and " +
                    std::to_string(given.inner_steps) + " inner steps; both are 0 or more");
    const auto size = static_cast<std::size_t>(handle.problem.layout.size());
    const gasloc::Inner inner = handle.problem.settings.inner;
    return {given.rounds,
            given.inner_steps,
            copied(given.parameters, size, "parameters"),
            copied(given.before, size, "before"),
            copied(given.first_moment, inner == gasloc::Inner::sgd ? 0 : size, "first_moment"),
            copied(given.second_moment, inner == gasloc::Inner::adamw ? size : 0, "second_moment")};
}

} // namespace
} // namespace scape::abi

using scape::abi::alive;
using scape::abi::going_on;
using scape::abi::guarded;
using scape::abi::need;
using scape::abi::need_size;
using scape::abi::view;

scape_status scape_gasloc_worker_create(const scape_gasloc_problem* problem, scape_peers* peers,
                                        const scape_values* parameters, size_t count,
                                        scape_gasloc_worker** worker) {
    return guarded([&] {
        need(problem, "problem");
        need(worker, "worker");
        *worker =
            scape::abi::make_worker(*problem, peers, scape::abi::pieces(parameters, count, "parameters"))
                .release();
    });
}

void scape_gasloc_worker_destroy(scape_gasloc_worker* worker) {
    delete worker;
}

scape_status scape_gasloc_worker_step(scape_gasloc_worker* worker, const scape_values* gradient,
                                      size_t count, double learning_rate, int32_t* counted) {
    return guarded([&] {
        auto& mine = alive(worker);
        const auto values = scape::abi::floats(scape::abi::pieces(gradient, count, "gradient"),
                                               mine.problem.layout.size(), mine.gathered, "gradient");
        const bool finite = mine.worker->step(values, learning_rate);
        if (counted != nullptr)
            *counted = finite ? 1 : 0;
    });
}

scape_status scape_gasloc_worker_round(scape_gasloc_worker* worker, scape_gasloc_round* round) {
    return guarded([&] {
        auto& mine = alive(worker);
        if (round != nullptr)
            need_size(round->struct_size, sizeof(scape_gasloc_round), "scape_gasloc_round");
        const auto went = scape::abi::make_round(mine);
        if (round != nullptr)
            *round = {sizeof(scape_gasloc_round),
                      went.number,
                      went.inner_steps,
                      went.skipped ? 1 : 0,
                      static_cast<int32_t>(went.met.size()),
                      went.sent};
    });
}

int64_t scape_gasloc_worker_rounds(const scape_gasloc_worker* worker) {
    return worker == nullptr ? 0 : worker->rounds;
}

scape_status scape_gasloc_worker_parameters(scape_gasloc_worker* worker, scape_values* parameters) {
    return guarded([&] {
        need(parameters, "parameters");
        *parameters = view(alive(worker).worker->parameters());
    });
}

scape_status scape_gasloc_worker_state(scape_gasloc_worker* worker, scape_gasloc_state* state) {
    return guarded([&] {
        need(state, "state");
        need_size(state->struct_size, sizeof(scape_gasloc_state), "scape_gasloc_state");
        auto& mine = alive(worker);
        mine.looked_at = mine.worker->state();
        const auto part = [](const std::vector<float>& values) {
            return view(std::span<const float>(values));
        };
        const scape::gasloc::State& now = mine.looked_at;
        *state = {sizeof(scape_gasloc_state), now.rounds,  now.s,      part(now.theta),
                  part(now.before),           part(now.m), part(now.v)};
    });
}

scape_status scape_gasloc_worker_restore(scape_gasloc_worker* worker, const scape_gasloc_state* state) {
    return guarded([&] {
        need(state, "state");
        auto& mine = going_on(worker);
        scape::abi::begin(mine, scape::abi::state_of(mine, *state));
    });
}

scape_status scape_gasloc_worker_save(scape_gasloc_worker* worker, const char* folder) {
    return guarded([&] {
        need(folder, "folder");
        auto& mine = alive(worker);
        scape::gasloc::save(folder, mine.problem.settings, mine.worker->state(), mine.peers.peers->rank(),
                            mine.problem.workers);
    });
}

scape_status scape_gasloc_worker_load(scape_gasloc_worker* worker, const char* checkpoint) {
    return guarded([&] {
        need(checkpoint, "checkpoint");
        auto& mine = going_on(worker);
        auto state = scape::gasloc::load(checkpoint, mine.problem.settings, mine.peers.peers->rank(),
                                         mine.problem.workers);
        if (state.theta.size() != static_cast<std::size_t>(mine.problem.layout.size()))
            throw scape::Error(std::string(checkpoint) + ": it has " + std::to_string(state.theta.size()) +
                               " parameters, and the model " + std::to_string(mine.problem.layout.size()) +
                               "; use a checkpoint of this model");
        scape::abi::begin(mine, std::move(state));
    });
}
