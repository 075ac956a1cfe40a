// Runs under mpirun with three ranks or more: work of peers on some of the ranks, as the gate runs it.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <truestep/distributed/mpi.hpp>
#include <truestep/gate/group.hpp>

int main(int argument_count, char** arguments) {
    using truestep::distributed::Peers;
    using truestep::distributed::Traffic;
    const truestep::distributed::MpiSession session(argument_count, arguments);
    const auto group = truestep::gate::make_mpi_group(std::chrono::seconds(20));
    int wrong = 0;
    for (int turn = 0; turn < 100; ++turn) {
        const int workers = 1 + turn % session.size();
        std::uint8_t got = 0;
        group->run_peers(workers, [&](Peers& peers) {
            if (peers.size() == 1)
                return;
            const int next = (peers.rank() + 1) % workers;
            const int previous = (peers.rank() + workers - 1) % workers;
            peers.send(Traffic::parameters, next, 1, std::make_shared<int>(peers.rank() + turn),
                       sizeof(int));
            const auto incoming = peers.receive(Traffic::parameters, previous, 1, sizeof(int));
            if (*reinterpret_cast<const int*>(incoming->wait(sizeof(int))) == previous + turn)
                got = 1;
        });
        const auto all = group->exchange(workers, [&](int) { return truestep::gate::Group::Bytes{got}; });
        for (int rank = 0; rank < workers && workers > 1; ++rank)
            wrong += all.at(static_cast<std::size_t>(rank)).at(0) == 1 ? 0 : 1;
    }
    if (session.rank() == 0)
        std::printf("%d wrong\n", wrong);
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
