// Runs under mpirun with any number of ranks: mpirun -n 3 mpi_peers_test
// Faults, for mpi_peers_faults.sh: mpi_peers_test --throw RANK | --hang RANK | --die RANK | --unwind RANK |
// --wrong RANK | --deaf RANK

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <truestep/distributed/counting_peers.hpp>
#include <truestep/distributed/mpi_comm.hpp>
#include <truestep/problem/tunable.hpp>

#include "mpi_counted.hpp"

namespace {

using namespace truestep::distributed;
using namespace std::chrono_literals;

constexpr std::chrono::milliseconds patience = 8s;
constexpr std::chrono::milliseconds short_patience = 2s; // mpi_peers_faults.sh knows this number

constexpr auto piece = truestep::problem::tunable<std::size_t>("mail_piece");

using Message = std::shared_ptr<std::vector<std::byte>>;

std::byte value(int from, std::uint64_t number, std::size_t at) {
    return static_cast<std::byte>(static_cast<std::uint64_t>(from) * 31 + number * 17 + at + at / 251);
}

/// Empty messages, small ones, and some of many pieces.
std::size_t size_of(std::uint64_t number) {
    constexpr std::size_t mib = std::max<std::size_t>(piece, 2000);
    return number % 5 == 0 ? 0 : number % 7 == 3 ? 2 * mib + number : number * 1000;
}

Message message(int from, std::uint64_t number, std::size_t size) {
    auto made = std::make_shared<std::vector<std::byte>>(size);
    for (std::size_t i = 0; i < size; ++i)
        (*made)[i] = value(from, number, i);
    return made;
}

void send(Peers& peers, int to, std::uint64_t number, const Message& bytes) {
    peers.send(Traffic::parameters, to, number, {bytes, bytes->data()}, bytes->size());
}

void send(Peers& peers, int to, std::uint64_t number) {
    send(peers, to, number, message(peers.rank(), number, size_of(number)));
}

std::unique_ptr<IncomingMessage> receive(Peers& peers, int from, std::uint64_t number) {
    return peers.receive(Traffic::parameters, from, number, size_of(number));
}

/// Reads the message in pieces, each as soon as it has arrived.
bool is_right(IncomingMessage& incoming, int from, std::uint64_t number) {
    constexpr std::size_t step = 300'000;
    const std::size_t size = size_of(number);
    for (std::size_t begin = 0; begin <= size; begin += step) {
        const std::size_t end = std::min(size, begin + step);
        const std::byte* const data = incoming.wait(end);
        for (std::size_t i = begin; i < end; ++i)
            if (data[i] != value(from, number, i))
                return false;
    }
    return true;
}

bool take(Peers& peers, int from, std::uint64_t number) {
    return is_right(*receive(peers, from, number), from, number);
}

std::string told(const std::function<void()>& way) {
    try {
        way();
    } catch (const Aborted& error) {
        return error.what();
    }
    return "";
}

bool knows_its_place(Peers& peers) {
    const MPI_Comm world = MPI_COMM_WORLD;
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    return peers.name() == "mpi" && peers.rank() == rank && peers.size() == size;
}

/// Rounds of gossip on a complete graph.
bool complete_graph(Peers& peers) {
    bool good = true;
    for (std::uint64_t round = 0; round < 25; ++round) {
        const Message mine = message(peers.rank(), round, size_of(round));
        for (int peer = 0; peer < peers.size(); ++peer)
            if (peer != peers.rank())
                send(peers, peer, round, mine);
        for (int peer = 0; peer < peers.size(); ++peer)
            if (peer != peers.rank())
                good = take(peers, peer, round) && good;
        while (!is_let_go(mine))
            peers.progress();
    }
    return good;
}

/// All messages under way at once, waited for in another order, some dropped. Only each pair keeps
/// its order of sends and receives.
bool many_under_way(Peers& peers) {
    constexpr std::uint64_t messages = 20;
    std::vector<std::vector<std::unique_ptr<IncomingMessage>>> from(static_cast<std::size_t>(peers.size()));
    bool good = true;
    for (std::uint64_t number = 0; number < messages; ++number)
        for (int turn = 1; turn < peers.size(); ++turn) {
            const int peer = (peers.rank() + turn) % peers.size();
            auto& line = from[static_cast<std::size_t>(peer)];
            if (number % 2 == 0)
                send(peers, peer, number);
            line.push_back(receive(peers, peer, number));
            if (number % 2 == 1)
                send(peers, peer, number);
            if (number % 6 == 5)
                line.back().reset();
        }
    for (std::uint64_t number = messages; number-- > 0;)
        for (int peer = 0; peer < peers.size(); ++peer)
            if (peer != peers.rank() && number % 6 != 5)
                good = is_right(*from[static_cast<std::size_t>(peer)][number], peer, number) && good;
    return good;
}

/// The peer's second piece is held back, but the first can be read.
bool first_piece_comes_first(Peers& peers, std::size_t first) {
    constexpr std::uint64_t number = 3; // 2 MiB and 3 bytes
    const int peer = peers.rank() ^ 1;
    if (peer >= peers.size())
        return true;
    mpi_counted::hold_all_but_first_pieces(true);
    const auto incoming = receive(peers, peer, number);
    send(peers, peer, number);
    const bool good = *incoming->wait(first) == value(peer, number, 0) &&
                      incoming->wait(first)[first - 1] == value(peer, number, first - 1);
    mpi_counted::hold_all_but_first_pieces(false);
    return is_right(*incoming, peer, number) && good;
}

/// Each rank leaves when it has done its part, rank 0 first: no rank waits for it, and it waits for
/// no rank.
bool others_go_on(MpiOptions options) {
    auto peers = make_mpi_peers(options);
    const int rank = peers->rank();
    const int size = peers->size();
    bool good = true;
    for (std::uint64_t round = 0; round < 5; ++round)
        for (int peer = 1; peer < size; ++peer) // among all but rank 0
            if (peer != rank && rank != 0)
                send(*peers, peer, round);
    if (rank == 0 && size > 1)
        send(*peers, 1, 3);
    if (rank == 0)
        peers.reset();
    for (std::uint64_t round = 0; round < 5 && rank > 0; ++round)
        for (int peer = 1; peer < size; ++peer)
            if (peer != rank)
                good = take(*peers, peer, round) && good;
    if (rank == 1)
        good = take(*peers, 0, 3) && good;
    const std::string left =
        "rank 0 has left and did not send its parameters (message 7) to rank " + std::to_string(rank);
    if (rank > 0)
        good = told([&] { (void)take(*peers, 0, 7); }) == left && good;
    if (rank > 0) // without waiting the error is the same
        good = told([&] { peers->must_go_on(Traffic::parameters, 0, 7); }) == left && good;
    return good;
}

bool another_message_is_refused(Peers& peers) {
    const int peer = peers.rank() ^ 1;
    if (peer >= peers.size())
        return true;
    send(peers, peer, 1);
    send(peers, peer, 2);
    const auto other = receive(peers, peer, 4);
    const auto right = receive(peers, peer, 2);
    const std::string from = std::to_string(peer);
    const std::string text = "rank " + from + " sent its parameters (message 1, 1000 bytes) where rank " +
                             std::to_string(peers.rank()) +
                             " awaits its parameters (message 4, 4000 bytes)";
    return told([&] { (void)other->wait(1); }) == text && is_right(*right, peer, 2) &&
           told([&] { (void)other->wait(1); }) == text;
}

/// A rank that ends without waiting for what it has asked for, and one that sends it.
bool asked_and_never_waited(MpiOptions options) {
    const auto peers = make_mpi_peers(options);
    const int peer = peers->rank() ^ 1;
    if (peer >= peers->size())
        return true;
    const auto first = receive(*peers, peer, 3);
    const auto second = receive(*peers, peer, 4);
    if (peers->rank() % 2 == 0)
        send(*peers, peer, 3);
    return true;
}

bool disturbed(Peers& inner) {
    PeerDisturbance disturbance;
    disturbance.late_start.fill(3);
    disturbance.hold_back.fill(true);
    CountingPeers peers(inner, disturbance);
    return many_under_way(peers) && peers.sent_to(peers.rank()) == CountingPeers::Sent{};
}

bool wrong_use_is_refused(Peers& peers) {
    try {
        (void)receive(peers, peers.rank(), 1);
    } catch (const std::invalid_argument&) {
        return true;
    }
    return false;
}

class Verdict {
  public:
    void check(const std::string& what, bool good) {
        ++(good ? passed_ : failed_);
        if (!good)
            std::printf("FAILED %s\n", what.c_str());
    }
    [[nodiscard]] int report() const {
        std::printf("%d passed, %d failed\n", passed_, failed_);
        return failed_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    }

  private:
    int passed_ = 0;
    int failed_ = 0;
};

void messages(Verdict& verdict, Peers& peers, const std::string& where) {
    const long before = mpi_counted::collectives();
    verdict.check("complete graph" + where, complete_graph(peers));
    verdict.check("many under way" + where, many_under_way(peers));
    verdict.check("disturbed" + where, disturbed(peers));
    verdict.check("another message" + where, another_message_is_refused(peers));
    verdict.check("wrong use" + where, wrong_use_is_refused(peers));
    verdict.check("no collective" + where, mpi_counted::collectives() == before);
}

int test() {
    Verdict verdict;
    const long at_first = mpi_counted::collectives();
    {
        const auto peers = make_mpi_peers({.timeout = patience});
        verdict.check("collectives are counted", mpi_counted::collectives() > at_first);
        verdict.check("place", knows_its_place(*peers));
        messages(verdict, *peers, "");
    }
    // Replaces 2^31: everything goes in pieces of it.
    for (const std::size_t largest : {std::size_t{999}, std::size_t{60'000}}) {
        const MpiOptions options{.timeout = patience, .largest_count = largest};
        const std::string where = ", largest count " + std::to_string(largest);
        const auto peers = make_mpi_peers(options);
        messages(verdict, *peers, where);
        verdict.check("first piece" + where, first_piece_comes_first(*peers, std::min(largest, piece)));
    }
    for (int session = 0; session < 20; ++session) {
        verdict.check("others go on", others_go_on({.timeout = patience}));
        verdict.check("asked and never waited", asked_and_never_waited({.timeout = patience}));
    }
    MPI_Comm backwards = MPI_COMM_NULL;
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &backwards);
    {
        const auto reversed = make_mpi_peers(backwards, {.timeout = patience});
        verdict.check("rank", reversed->rank() == reversed->size() - 1 - rank);
        messages(verdict, *reversed, ", ranks reversed");
    }
    MPI_Comm_free(&backwards);
    return verdict.report();
}

void go_wrong(const std::string& mode) {
    if (mode == "--throw" || mode == "--unwind")
        throw std::runtime_error("thrown on purpose");
    if (mode == "--die")
        std::raise(SIGKILL);
    if (mode == "--hang" || mode == "--deaf")
        std::this_thread::sleep_for(20 * short_patience);
}

/// Two pairs and a chain of the rest: rank 4 needs rank 3, and rank 5 rank 4. One rank fails in
/// round 3.
void rounds(Peers& peers, const std::string& mode, bool guilty) {
    const int rank = peers.rank();
    const int peer = rank < 4 ? rank ^ 1 : rank - 1;
    const bool alone = peer >= peers.size();
    for (std::uint64_t round = 1; round < 8; ++round) {
        if (guilty && round == 3)
            go_wrong(mode);
        if (mode == "--deaf" && round == 3) { // its peer leaves without waiting
            send(peers, peer, round);
            break;
        }
        const auto awaited = alone ? nullptr : receive(peers, peer, round);
        if (!alone)
            send(peers, peer, guilty && round == 3 && mode == "--wrong" ? 9 : round);
        if (rank == 3 && peers.size() > 4)
            send(peers, 4, round);
        if (rank >= 4 && rank + 1 < peers.size())
            send(peers, rank + 1, round);
        if (!alone)
            (void)is_right(*awaited, peer, round);
    }
    std::printf("rank %d ended\n", rank);
    std::fflush(stdout);
}

void faulty(const std::string& mode, bool guilty) {
    const auto peers = make_mpi_peers({.timeout = short_patience});
    if (guilty && mode == "--unwind") {
        rounds(*peers, mode, guilty);
        return;
    }
    try {
        rounds(*peers, mode, guilty);
    } catch (const std::exception& error) {
        peers->leave(error.what());
    }
}

} // namespace

int main(int argument_count, char** arguments) {
    const MpiSession session(argument_count, arguments);
    if (argument_count == 1)
        return test();
    const std::string mode = arguments[1];
    try {
        faulty(mode, argument_count > 2 && arguments[2] == std::to_string(session.rank()));
    } catch (const std::exception&) {
        std::puts("too late: the peers have been destroyed before");
    }
    return EXIT_SUCCESS;
}
