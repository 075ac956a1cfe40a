// Properties of waiting: a worker waits only for those it needs, and the time at which messages come
// changes nothing.
#include "family.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "by_hand.hpp"

namespace truestep::properties::gasloc {

namespace {

// 11. Workers that do not depend on a delayed worker proceed.
void no_barrier(Trial& trial) {
    Scenario& scenario = trial.scenario;
    const auto seed = static_cast<Index>(scenario.settings.seed);
    const int held = static_cast<int>(seed % scenario.workers);
    const Index from = 1 + seed % scenario.rounds;
    const std::vector<RankRecording> expected = expected_lives(scenario);
    // The round up to which a worker does not need the delayed one.
    std::vector<Index> ahead(static_cast<std::size_t>(scenario.workers), from - 1);
    for (Index round = from; round <= scenario.rounds; ++round) {
        const std::vector<bool> reached = by_hand::light_cone(scenario, held, from, round);
        for (std::size_t i = 0; i < ahead.size(); ++i)
            if (!reached[i])
                ahead[i] = round;
    }
    // The last round that it begins without the delayed one.
    for (std::size_t i = 0; i < ahead.size(); ++i) {
        const Index ended = expected[i].ended();
        ahead[i] = std::min({ahead[i] + 1, scenario.rounds, ended > 0 ? ended : scenario.rounds});
    }
    std::vector<std::atomic<Index>> begun(ahead.size());
    std::atomic<bool> late{false};
    scenario.before_round = [&](int worker, Index round) {
        begun[static_cast<std::size_t>(worker)] = round;
        if (worker != held || round != from)
            return;
        // Ten seconds are enough for a loaded machine, and those who wait for this worker wait as long.
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        const auto all_ahead = [&] {
            for (std::size_t i = 0; i < ahead.size(); ++i)
                if (static_cast<int>(i) != held && begun[i] < ahead[i])
                    return false;
            return true;
        };
        while (!all_ahead() && std::chrono::steady_clock::now() < deadline)
            std::this_thread::yield();
        late = !all_ahead();
    };
    trial.lives = trial.play(scenario);
    scenario.before_round = [](int, Index) {};
    for (std::size_t i = 0; late && i < ahead.size(); ++i)
        trial.expect(false, from, [&] {
            return "worker " + std::to_string(held) + " was held back before round " +
                   std::to_string(from) + ", and workers that do not depend on it waited for it";
        });
    trial.as_the_reference(trial.lives);
}

// 12. The times at which messages arrive change no bit.
void delays(Trial& trial) {
    trial.scenario.late = 0;
    const std::vector<RankRecording> punctual = trial.play(trial.scenario);
    trial.scenario.late = std::max<Index>(1, trial.run.late);
    trial.lives = trial.play(trial.scenario);
    trial.same(punctual, trial.lives, "those of messages that come at once");
}

} // namespace

std::vector<gate::Property> delay_properties() {
    std::vector<gate::Property> all{
        property(11, "no_barrier", "Whoever does not depend on a worker that is held back goes on.",
                 no_barrier, {"several ranks"}, without_restart),
        property(12, "delay", "When messages come changes no bit.", delays, meets(), without_restart)};
    all.front().skipped = [](const gate::Implementation& implementation) -> std::string {
        // An implementation that does not communicate here has left this out for another reason.
        return dynamic_cast<const Implementation&>(implementation).in_process() ||
                       !implementation.communicates()
                   ? ""
                   : "only threads can be held back at will; distributed.mpi_held_back shows it of "
                     "processes";
    };
    return all;
}

} // namespace truestep::properties::gasloc
