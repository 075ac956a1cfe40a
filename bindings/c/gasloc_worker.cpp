// Provides C functions for one worker of GASLoC: its steps, rounds, state and checkpoints.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/gasloc/checkpoint.hpp>
#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/distributed/throws_on_all.hpp>
#include <truestep/problem/error.hpp>

#include "gasloc_problem.hpp"
#include "peers.hpp"
#include "values.hpp"

struct truestep_gasloc_worker {
    truestep_gasloc_problem problem;
    truestep_peers peers;
    std::unique_ptr<truestep::distributed::gasloc::Worker> worker{};
    truestep::problem::gasloc::Index rounds = 0;
    bool ended = false;                               ///< by a round that failed
    std::vector<float> gathered{};                    ///< a gradient that came in pieces
    truestep::distributed::gasloc::State looked_at{}; ///< at the last look
};

namespace truestep::abi {

namespace {

using distributed::gasloc::State;
using distributed::gasloc::Worker;

/// The worker, which may begin a round. Throws if a failed round has ended it.
truestep_gasloc_worker& going_on(truestep_gasloc_worker* worker) {
    if (need(worker, "worker").ended)
        throw Error("the worker has ended in a round that failed; make another, over other peers");
    return *worker;
}

truestep_peers peers_for(const truestep_gasloc_problem& problem, const truestep_peers* given) {
    truestep_peers peers =
        given != nullptr ? *given : truestep_peers{distributed::InProcessPeers(1).peers(0)};
    if (peers.peers->size() != problem.workers)
        throw Error("the problem has " + std::to_string(problem.workers) + " workers and the peers are " +
                    std::to_string(peers.peers->size()) + " ranks; make the problem with as many workers");
    return peers;
}

/// If it fails, the present state stays. All ranks throw where `make` fails on one of them.
template <class Make>
void begin(truestep_gasloc_worker& handle, const Make& make) {
    State state;
    distributed::throws_on_all(*handle.peers.peers, [&] { state = make(); });
    const problem::gasloc::Index rounds = state.rounds;
    if (handle.worker)
        handle.worker->restore(std::move(state));
    else
        handle.worker =
            std::make_unique<Worker>(handle.problem.settings, std::move(state), *handle.peers.peers,
                                     distributed::gasloc::Options{handle.problem.threads});
    handle.peers.settle();
    handle.rounds = rounds;
}

std::unique_ptr<truestep_gasloc_worker> make_worker(const truestep_gasloc_problem& problem,
                                                    const truestep_peers* peers,
                                                    std::span<const truestep_values> parameters) {
    auto handle = std::make_unique<truestep_gasloc_worker>(
        truestep_gasloc_worker{problem, peers_for(problem, peers)});
    begin(*handle, [&] {
        const auto start = floats(parameters, problem.layout.size(), handle->gathered, "parameters");
        return distributed::gasloc::first_state(problem.settings, start);
    });
    handle->gathered = {};
    return handle;
}

distributed::gasloc::Round make_round(truestep_gasloc_worker& handle) {
    // Remains true if round() throws: a worker that waited in vain knows less than its neighbours.
    handle.ended = true;
    distributed::gasloc::Round round = handle.worker->round();
    handle.rounds = round.number;
    handle.peers.settle();
    handle.ended = false;
    return round;
}

std::vector<float> copied(const truestep_values& values, std::size_t size, const std::string& what) {
    std::vector<float> room;
    const auto given = floats({&values, 1}, static_cast<std::int64_t>(size), room, "restore: " + what);
    return {given.begin(), given.end()};
}

State state_of(const truestep_gasloc_worker& handle, const truestep_gasloc_state& given) {
    need_size(given.struct_size, sizeof(truestep_gasloc_state), "truestep_gasloc_state");
    if (given.rounds < 0 || given.inner_steps < 0)
        throw Error("restore: it has " + std::to_string(given.rounds) + " rounds and " +
                    std::to_string(given.inner_steps) + " inner steps; both are 0 or more");
    const auto size = static_cast<std::size_t>(handle.problem.layout.size());
    const problem::gasloc::Inner inner = handle.problem.settings.inner;
    return {
        given.rounds,
        given.inner_steps,
        copied(given.parameters, size, "parameters"),
        copied(given.before, size, "before"),
        copied(given.first_moment, inner == problem::gasloc::Inner::sgd ? 0 : size, "first_moment"),
        copied(given.second_moment, inner == problem::gasloc::Inner::adamw ? size : 0, "second_moment")};
}

} // namespace

extern "C" {

truestep_status truestep_gasloc_worker_create(const truestep_gasloc_problem* problem, truestep_peers* peers,
                                              const truestep_values* parameters, size_t count,
                                              truestep_gasloc_worker** worker) {
    return guarded([&] {
        need(problem, "problem");
        need(worker, "worker");
        *worker = make_worker(*problem, peers, pieces(parameters, count, "parameters")).release();
    });
}

void truestep_gasloc_worker_destroy(truestep_gasloc_worker* worker) {
    delete worker;
}

truestep_status truestep_gasloc_worker_step(truestep_gasloc_worker* worker, const truestep_values* gradient,
                                            size_t count, double learning_rate, int32_t* counted) {
    return guarded([&] {
        auto& mine = need(worker, "worker");
        const auto values = floats(pieces(gradient, count, "gradient"), mine.problem.layout.size(),
                                   mine.gathered, "gradient");
        const bool finite = mine.worker->step(values, learning_rate);
        if (counted != nullptr)
            *counted = finite ? 1 : 0;
    });
}

truestep_status truestep_gasloc_worker_round(truestep_gasloc_worker* worker, truestep_gasloc_round* round) {
    return guarded([&] {
        auto& mine = need(worker, "worker");
        if (round != nullptr)
            need_size(round->struct_size, sizeof(truestep_gasloc_round), "truestep_gasloc_round");
        const auto went = make_round(mine);
        if (round != nullptr)
            *round = {
                sizeof(truestep_gasloc_round),         went.number, went.inner_steps, went.skipped ? 1 : 0,
                static_cast<int32_t>(went.met.size()), went.sent};
    });
}

int64_t truestep_gasloc_worker_rounds(const truestep_gasloc_worker* worker) {
    return worker == nullptr ? 0 : worker->rounds;
}

truestep_status truestep_gasloc_worker_parameters(truestep_gasloc_worker* worker,
                                                  truestep_values* parameters) {
    return guarded(
        [&] { need(parameters, "parameters") = view(need(worker, "worker").worker->parameters()); });
}

truestep_status truestep_gasloc_worker_state(truestep_gasloc_worker* worker, truestep_gasloc_state* state) {
    return guarded([&] {
        need_size(need(state, "state").struct_size, sizeof *state, "truestep_gasloc_state");
        auto& mine = need(worker, "worker");
        const distributed::gasloc::State& now = mine.looked_at = mine.worker->state();
        *state = {sizeof *state,    now.rounds,  now.s,      view(now.theta),
                  view(now.before), view(now.m), view(now.v)};
    });
}

truestep_status truestep_gasloc_worker_restore(truestep_gasloc_worker* worker,
                                               const truestep_gasloc_state* state) {
    return guarded([&] {
        auto& mine = going_on(worker);
        begin(mine, [&] {
            if (state == nullptr)
                throw Error("it has no state to restore, and its own error says why");
            return state_of(mine, *state);
        });
    });
}

truestep_status truestep_gasloc_worker_save(truestep_gasloc_worker* worker, const char* folder) {
    return guarded([&] {
        need(folder, "folder");
        auto& mine = need(worker, "worker");
        distributed::gasloc::save(folder, mine.problem.settings, mine.worker->state(),
                                  mine.peers.peers->rank(), mine.problem.workers);
    });
}

truestep_status truestep_gasloc_worker_load(truestep_gasloc_worker* worker, const char* checkpoint) {
    return guarded([&] {
        need(checkpoint, "checkpoint");
        auto& mine = going_on(worker);
        begin(mine, [&] {
            auto state = distributed::gasloc::load(checkpoint, mine.problem.settings,
                                                   mine.peers.peers->rank(), mine.problem.workers);
            if (state.theta.size() != static_cast<std::size_t>(mine.problem.layout.size()))
                throw Error(std::string(checkpoint) + ": it has " + std::to_string(state.theta.size()) +
                            " parameters, and the model " + std::to_string(mine.problem.layout.size()) +
                            "; use a checkpoint of this model");
            return state;
        });
    });
}

} // extern "C"

} // namespace truestep::abi
