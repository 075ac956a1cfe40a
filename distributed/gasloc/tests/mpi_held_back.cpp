// Runs under mpirun with any number of ranks: mpirun -n 5 mpi_held_back
// Rank 0 does not begin its first round until all others have reported that they have ended as many
// as they can without it. If anything made them wait, it would never begin, and the run would end
// with a timeout.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <truestep/distributed/gasloc/worker.hpp>
#include <truestep/distributed/mpi_comm.hpp>

namespace {

using namespace truestep;
using problem::gasloc::Settings;

constexpr int rounds = 50;

Settings settings_of(problem::gasloc::Law law, int ranks) {
    Settings settings;
    settings.inner = problem::gasloc::Inner::sgd;
    settings.gamma = 0.0;
    settings.alpha = 0.5;
    settings.law = law;
    if (law == problem::gasloc::Law::given) { // 0 and 1 meet, and the others in a chain
        settings.given.emplace_back();
        for (int rank = 0; rank + 1 < ranks; ++rank)
            if (rank != 1)
                settings.given.front().push_back({rank, rank + 1});
    }
    return settings;
}

/// How many rounds a rank can end without the first of rank 0.
int free_rounds(problem::gasloc::Law law, int rank, int ranks) {
    if (law == problem::gasloc::Law::given)
        return rank == 1 ? 0 : rounds;
    return std::min(rank, ranks - rank) - 1;
}

/// Takes one message from some rank: it has ended another round.
void hear(std::vector<int>& ended) {
    int round = 0;
    MPI_Status status;
    MPI_Recv(&round, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status);
    ended[static_cast<std::size_t>(status.MPI_SOURCE)] = round;
}

/// False if a rank has ended another number of rounds than its light cone allows.
bool run(problem::gasloc::Law law) {
    const auto peers = distributed::make_mpi_peers({.timeout = std::chrono::seconds(60)});
    const int ranks = peers->size();
    const std::vector<float> gradient(1000, static_cast<float>(peers->rank()));
    distributed::gasloc::Worker worker(settings_of(law, ranks), std::vector<float>(1000, 1.0F), *peers);
    std::vector<int> ended(static_cast<std::size_t>(ranks), 0);
    bool good = true;
    if (peers->rank() == 0) {
        const auto all_free = [&] {
            for (int rank = 1; rank < ranks; ++rank)
                if (ended[static_cast<std::size_t>(rank)] < free_rounds(law, rank, ranks))
                    return false;
            return true;
        };
        while (!all_free())
            hear(ended);
        for (int rank = 1; rank < ranks; ++rank) {
            const int ahead = ended[static_cast<std::size_t>(rank)];
            std::printf("%s: rank 0 has ended 0 rounds, rank %d %d\n",
                        std::string(problem::gasloc::name(law)).c_str(), rank, ahead);
            good = good && ahead == free_rounds(law, rank, ranks);
        }
    }
    for (int round = 1; round <= rounds; ++round) {
        worker.step(gradient, 0.125);
        worker.round();
        if (peers->rank() != 0)
            MPI_Send(&round, 1, MPI_INT, 0, 0, MPI_COMM_WORLD);
    }
    if (peers->rank() == 0)
        while (std::any_of(ended.begin() + 1, ended.end(), [](int round) { return round < rounds; }))
            hear(ended);
    return good;
}

} // namespace

int main(int argument_count, char** arguments) {
    const distributed::MpiSession session(argument_count, arguments);
    const bool pairs = run(problem::gasloc::Law::given);
    const bool ring = run(problem::gasloc::Law::ring);
    return pairs && ring ? EXIT_SUCCESS : EXIT_FAILURE;
}
