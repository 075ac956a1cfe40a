// Finds a rank's number on its machine, from its launcher's variables or by counting the ranks.
#include <truestep/gpu/local_rank.hpp>

#include <cstdlib>
#include <set>
#include <string>

#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::gpu {

namespace {

HostLocation own() {
    HostLocation lodging;
    static_cast<void>(gethostname(lodging.machine.data(), lodging.machine.size() - 1));
    lodging.told = told_by_launcher([](const char* name) { return std::getenv(name); });
    return lodging;
}

} // namespace

int told_by_launcher(const std::function<const char*(const char*)>& variable) {
    for (const char* const name : {"SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                   "PMI_LOCAL_RANK", "LOCAL_RANK"}) {
        const char* const text = variable(name);
        if (text == nullptr)
            continue;
        const std::string told = text;
        const auto rank = parse_number<int>(told);
        if (!rank || *rank < 0)
            throw Error(std::string(name) + " is '" + told +
                        "'; it must be a local rank of at least 0; correct or unset it");
        return *rank;
    }
    return HostLocation::nothing;
}

int local_rank(std::span<const HostLocation> lodgings, int rank) {
    const HostLocation& mine = lodgings[static_cast<std::size_t>(rank)];
    int before = 0;
    bool all_are_told = true;
    std::set<int> told;
    for (std::size_t other = 0; other < lodgings.size(); ++other) {
        if (lodgings[other].machine != mine.machine)
            continue;
        before += other < static_cast<std::size_t>(rank) ? 1 : 0;
        all_are_told = all_are_told && lodgings[other].told != HostLocation::nothing &&
                       told.insert(lodgings[other].told).second;
    }
    return all_are_told ? mine.told : before;
}

int local_rank(distributed::Communicator& ranks) {
    return local_rank(distributed::gather_records(ranks, own()), ranks.rank());
}

int local_rank(distributed::Peers& ranks) {
    return local_rank(distributed::gather_records(ranks, own()), ranks.rank());
}

} // namespace truestep::gpu
