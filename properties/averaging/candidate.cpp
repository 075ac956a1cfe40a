#include "candidate.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

#include <truestep/averaging/worker.hpp>

namespace truestep::averaging {

namespace {

using gate::Group;

/// A record on its way between processes: both sides know from the case how long it is.
Group::Bytes written(const Seen& seen) {
    Group::Bytes bytes;
    const auto add = [&bytes](const void* values, std::size_t size) {
        const auto* begin = static_cast<const std::uint8_t*>(values);
        bytes.insert(bytes.end(), begin, begin + size);
    };
    for (const std::vector<float>& x : seen.after)
        add(x.data(), x.size() * sizeof(float));
    add(seen.sent.data(), sizeof(seen.sent));
    return bytes;
}

Seen read(const Group::Bytes& bytes, const Case& run) {
    Seen seen;
    seen.after.assign(static_cast<std::size_t>(run.rounds),
                      std::vector<float>(static_cast<std::size_t>(run.size)));
    const std::uint8_t* at = bytes.data();
    for (std::vector<float>& x : seen.after) {
        std::memcpy(x.data(), at, x.size() * sizeof(float));
        at += x.size() * sizeof(float);
    }
    std::memcpy(seen.sent.data(), at, sizeof(seen.sent));
    return seen;
}

} // namespace

Candidate::Candidate(std::string name, Play play, std::shared_ptr<const Group> group)
    : name_(std::move(name)), play_(std::move(play)), group_(std::move(group)) {}

std::vector<Seen> Candidate::run(const Case& run) const {
    const int workers = static_cast<int>(run.workers);
    std::vector<Seen> mine(static_cast<std::size_t>(workers));
    group_->run(workers, [&](distributed::Communicator& ranks) {
        Seen& seen = mine[static_cast<std::size_t>(ranks.rank())];
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
    std::vector<Seen> all;
    for (const Group::Bytes& bytes :
         group_->exchange(workers, [&](int rank) { return written(mine[static_cast<std::size_t>(rank)]); }))
        if (!bytes.empty()) // of a process that had no part in it
            all.push_back(read(bytes, run));
    return all;
}

void play_worker(const Case& run, distributed::Communicator& ranks, const Show& show) {
    Worker worker(parameters_of(run), learning_rate_of(run), ranks);
    for (Index round = 0; round < run.rounds; ++round) {
        for (const std::vector<float>& gradient : gradients_of(run, ranks.rank(), round))
            worker.step(gradient);
        worker.average();
        show(worker.parameters());
    }
}

} // namespace truestep::averaging
