// Runs a scenario of GASLoC on a group's workers with disturbed messages, and records each round.
#include "implementation.hpp"

#include <limits>
#include <utility>

#include <truestep/gate/record.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/storage/files.hpp>

namespace truestep::properties::gasloc {

namespace {

using distributed::Peers;
using distributed::Traffic;
using gate::Group;
namespace fs = std::filesystem;

/// How messages are disturbed under a scenario's number; it differs from rank to rank.
distributed::PeerDisturbance disturbance(Index late, int rank) {
    distributed::PeerDisturbance result;
    if (late == 0)
        return result;
    constexpr auto parameters = static_cast<std::size_t>(Traffic::parameters);
    result.late_start[parameters] = static_cast<unsigned>((late + rank) % 4);
    result.hold_back[parameters] = late % 2 == 1;
    result.delay_from.resize(4);
    result.delay_from[static_cast<std::size_t>(late % 4)] = std::chrono::milliseconds(1);
    return result;
}

std::uint64_t all_of(const distributed::CountingPeers& counted) {
    std::uint64_t sum = 0;
    for (const std::uint64_t bytes : counted.bytes())
        sum += bytes;
    return sum;
}

/// Restores states of two rounds, which workers refuse. Returns what one should not have taken.
std::string restore_apart(RankUnderTest& subject, State state, int worker) {
    state.rounds += worker == 0 ? 1 : 0;
    try {
        subject.restore(std::move(state));
        return "a restore by workers whose rounds differ";
    } catch (const Error&) {
        return {};
    }
}

/// Begins a round on other gradients, on some workers on a bad one, ends it if the scenario says so, and
/// restores the state before it. Returns what a worker that checks its calls should have refused.
std::string give_up(RankUnderTest& subject, const Scenario& scenario, int worker, Index round,
                    bool checks) {
    std::string taken;
    const State before = subject.state();
    if (checks && scenario.workers > 1) {
        taken = restore_apart(subject, before, worker);
        const State after = subject.state();
        if (after.rounds != before.rounds || after.s != before.s || after.theta != before.theta)
            taken = "the state of a restore that it refused";
    }
    std::vector<float> gradient(static_cast<std::size_t>(scenario.size), 0.5F);
    std::vector<float> bad = gradient;
    const double rate = scenario.learning_rate(round, 1);
    if (!bad.empty() && (worker + round) % 2 == 0) {
        bad.back() = std::numeric_limits<float>::quiet_NaN();
        static_cast<void>(subject.step(bad, rate));
    }
    static_cast<void>(subject.step(gradient, rate));
    if (checks)
        try {
            static_cast<void>(subject.state());
            taken = "a question for its state within a round";
        } catch (const Error&) { // NOLINT(bugprone-empty-catch): as it should
        }
    if (scenario.ended_first)
        static_cast<void>(subject.round());
    subject.restore(before);
    return taken;
}

} // namespace

Workers::Workers(std::string name, RankFactory subjects, std::shared_ptr<const Group> group,
                 gate::Placement seat)
    : Workers(
          std::move(name), [same = std::move(subjects)](Peers&) { return same; }, std::move(group),
          std::move(seat)) {}

Workers::Workers(std::string name, std::function<RankFactory(Peers&)> subjects,
                 std::shared_ptr<const Group> group, gate::Placement seat)
    : GroupImplementation(std::move(name), std::move(group), std::move(seat)),
      subjects_(std::move(subjects)) {}

std::vector<RankRecording> Workers::run(const Scenario& scenario) const {
    std::vector<RankRecording> lives(static_cast<std::size_t>(std::max(scenario.workers, scenario.to)));
    const fs::path folder = fs::path(gate::scratch_folder(group())) / ("gasloc-" + std::to_string(++runs_));
    const auto part = [&](int workers, Index first, Index last) {
        group().run_peers(workers, [&](Peers& peers) {
            play(scenario, first, last, folder, peers, lives[static_cast<std::size_t>(peers.rank())]);
        });
    };
    const bool restarts = scenario.restart > 0 && scenario.restart < scenario.rounds;
    const auto ended = [&] {
        bool any = false;
        for (const RankRecording& life : lives)
            any = any || life.ended() > 0 || !life.refused.empty();
        return group().any(any);
    };
    part(scenario.workers, 1, restarts ? scenario.restart : scenario.rounds);
    if (restarts && !ended())
        part(scenario.workers_in(scenario.rounds), scenario.restart + 1, scenario.rounds);
    std::vector<RankRecording> all = gate::exchange_records(group(), lives);
    if (restarts && group().speaks()) {
        std::error_code ignored;
        fs::remove_all(folder, ignored);
    }
    return all;
}

void Workers::play(const Scenario& scenario, Index first, Index last, const fs::path& folder, Peers& peers,
                   RankRecording& life) const {
    const int rank = peers.rank();
    const RankFactory subjects = subjects_(peers);
    distributed::CountingPeers counted(subjects.peers ? *subjects.peers : peers,
                                       disturbance(scenario.late, rank));
    const Settings settings = scenario.settings_of(
        rank, first > 1 ? scenario.again.value_or(scenario.settings) : scenario.settings);
    std::unique_ptr<RankUnderTest> subject;
    try {
        if (first == 1) {
            subject = subjects.start(settings, scenario.start_of(rank, scenario.start), counted,
                                     scenario.threads);
        } else {
            subject = subjects.restart(settings, folder, counted, scenario.threads);
            life.begun = subject->state();
            life.restarted = true;
        }
        if (first == 1 && scenario.watch)
            scenario.watch(rank, 0, subject->state());
    } catch (const Error& error) {
        life.refused = error.what();
        return;
    }
    const std::uint64_t before = all_of(counted);
    std::uint64_t parameters = 0;
    std::vector<std::uint64_t> so_far(static_cast<std::size_t>(peers.size()), 0);
    const auto count = [&](RoundRecording& seen) {
        for (int peer = 0; peer < peers.size(); ++peer) {
            std::uint64_t& sent = so_far[static_cast<std::size_t>(peer)];
            const std::uint64_t now = counted.sent(Traffic::parameters, peer).bytes;
            if (now > sent)
                seen.sent[peer] = now - sent;
            parameters += now - sent;
            sent = now;
        }
    };
    for (Index round = first; round <= last; ++round) {
        scenario.before_round(rank, round);
        RoundRecording seen;
        std::optional<State> apart; // what is refused in the middle of the round
        if (round == scenario.given_up) {
            const bool checks = placement().names_differences;
            if (checks && scenario.workers > 1)
                apart = subject->state();
            life.taken = give_up(*subject, scenario, rank, round, checks);
            RoundRecording given_up;
            count(given_up);
        }
        try {
            subjects.train(*subject, scenario, rank, round);
            if (apart)
                if (const std::string taken = restore_apart(*subject, *std::move(apart), rank);
                    !taken.empty())
                    life.taken = taken;
            seen.skipped = subject->round();
            seen.state = subject->state();
            if (const auto told = subject->told())
                seen.told = {told->number, told->inner_steps, static_cast<Index>(told->met.size()),
                             static_cast<Index>(told->sent)};
        } catch (const Halted& halted) {
            life.halted = round;
            life.reason = halted.what();
            if (placement().names_differences)
                life.theta_after_halt = subject->state().theta;
            break;
        } catch (const distributed::Aborted& aborted) {
            life.left_alone = round;
            life.reason = aborted.what();
            counted.leave(aborted.what());
            break;
        }
        count(seen);
        if (scenario.watch)
            scenario.watch(rank, round, seen.state);
        else
            life.rounds[round] = std::move(seen);
    }
    life.others = life.ended() > 0 ? 0 : all_of(counted) - before - parameters;
    if (last < scenario.rounds && life.ended() == 0)
        subject->save(folder, rank, scenario.workers);
}

void train(RankUnderTest& subject, const Scenario& scenario, int worker, Index round) {
    for (Index step = 1; step <= scenario.steps(worker, round); ++step)
        static_cast<void>(
            subject.step(scenario.gradient(worker, round, step), scenario.learning_rate(round, step)));
}

} // namespace truestep::properties::gasloc
