// Runs a case of averaging on a group's ranks, and records parameters and bytes sent.
#include "implementation.hpp"

#include <stdexcept>

#include <truestep/distributed/averaging/worker.hpp>
#include <truestep/gate/record.hpp>

namespace truestep::properties::averaging {

std::vector<RankRecording> Implementation::run(const Case& run) const {
    const int workers = static_cast<int>(run.workers);
    std::vector<RankRecording> mine(static_cast<std::size_t>(workers));
    group().run(workers, [&](distributed::Communicator& ranks) {
        RankRecording& seen = mine[static_cast<std::size_t>(ranks.rank())];
        distributed::CountingCommunicator counted(ranks);
        play_(run, counted, [&](const std::vector<float>& parameters) {
            if (parameters.size() != static_cast<std::size_t>(run.size))
                throw std::runtime_error("parameters are not shown in full length");
            seen.after.push_back(parameters);
        });
        if (seen.after.size() != static_cast<std::size_t>(run.rounds))
            throw std::runtime_error("parameters are not shown after each round");
        seen.sent = counted.bytes();
    });
    return gate::exchange_records(group(), mine);
}

void play_worker(const Case& run, distributed::Communicator& ranks, const Show& show) {
    distributed::averaging::Worker worker(parameters_of(run), learning_rate_of(run), ranks);
    for (Index round = 0; round < run.rounds; ++round) {
        for (const std::vector<float>& gradient : gradients_of(run, ranks.rank(), round))
            worker.step(gradient);
        worker.average();
        show(worker.parameters());
    }
}

} // namespace truestep::properties::averaging
