// Holds scenarios of messages between ranks, for the exploration of schedules.
#include <functional>
#include <stdexcept>

#include <truestep/distributed/in_process_peers.hpp>

#include "ends.hpp"
#include "messages.hpp"
#include "scenarios.hpp"

namespace truestep::distributed::model {
namespace {

using namespace std::chrono_literals;

Ends run(const std::function<void(Peers&)>& function) {
    Ends ends;
    try {
        distributed::run_peers(
            static_cast<int>(ranks),
            [&](Peers& peers) {
                try {
                    function(peers);
                } catch (const std::exception& error) {
                    ends.of_rank[rank_of(peers)] = error.what();
                    throw;
                }
            },
            5s);
    } catch (const std::exception& error) {
        ends.of_all = error.what();
    }
    return ends;
}

std::function<void()> well(const std::function<void(Peers&)>& function) {
    return [function] {
        const Ends ends = run(function);
        expect(ends.of_all.empty(), "the ranks ended: " + ends.of_all);
        expect_no_deadline();
    };
}

/// One message to the next rank.
void ring(Peers& peers) {
    const std::size_t rank = rank_of(peers);
    Letter letter;
    letter.write(rank, 0);
    letter.send(peers, (rank + 1) % ranks, 0);
    take(peers, (rank + 2) % ranks, 0);
}

/// The others must proceed even if a rank does not leave after its message.
void peers_stay() {
    Crowd crowd;
    const Ends ends = run([&](Peers& peers) {
        ring(peers);
        crowd.come_and_wait_for(ranks);
    });
    expect(ends.of_all.empty(), "the ranks ended: " + ends.of_all);
    expect_no_deadline();
}

/// Each rank sends one message to both others, and asks for theirs before.
void triangle(Peers& peers) {
    const std::size_t rank = rank_of(peers);
    const std::size_t next = (rank + 1) % ranks;
    const std::size_t previous = (rank + 2) % ranks;
    const auto from_next = receive(peers, next, 0);
    const auto from_previous = receive(peers, previous, 0);
    Letter letter;
    letter.write(rank, 0);
    letter.send(peers, next, 0);
    letter.send(peers, previous, 0);
    look(*from_previous, previous, 0);
    look(*from_next, next, 0);
}

/// Rank 0 reuses its buffer, to both others, as soon as they have released it.
void used_again(Peers& peers) {
    Letter letter;
    for (std::size_t number = 0; number < 2; ++number)
        if (peers.rank() == 0) {
            letter.until_it_is_let_go();
            letter.write(0, number);
            letter.send(peers, 1, number);
            letter.send(peers, 2, number);
        } else {
            take(peers, 0, number);
        }
}

/// Rank 1 ignores the first message, which comes before or after it is dropped; the second arrives.
void dropped(Peers& peers) {
    if (peers.rank() == 0) {
        Letter letter;
        letter.write(0, 0);
        letter.send(peers, 1, 0);
        letter.until_it_is_let_go();
        letter.write(0, 1);
        letter.send(peers, 1, 1);
    } else if (peers.rank() == 1) {
        receive(peers, 0, 0).reset();
        take(peers, 0, 1);
    }
}

/// Rank 1 ends at any time, and takes nothing.
void never_taken(Peers& peers) {
    if (peers.rank() != 0)
        return;
    Letter letter;
    letter.write(0, 0);
    letter.send(peers, 1, 0);
    letter.until_it_is_let_go();
}

/// Rank 2 sends one message, and rank 1 needs two; rank 0 needs rank 1. `ends` is how rank 2 ends.
Ends chain(const std::function<void()>& ends) {
    return run([&](Peers& peers) {
        const std::size_t rank = rank_of(peers);
        if (rank == 2) {
            Letter letter;
            letter.write(2, 0);
            letter.send(peers, 1, 0);
            ends();
            return;
        }
        if (rank == 1)
            take(peers, 2, 0);
        take(peers, rank + 1, 1);
    });
}

void peer_leaves() {
    const Ends ends = chain([] {});
    ends.expect_all("rank 2 has left and did not send its parameters (message 1) to rank 1");
    ends.expect_told({0, 1});
    expect_no_deadline();
}

void peer_fails() {
    const Ends ends = chain([] { throw std::runtime_error("out of luck"); });
    expect(ends.of_all == "out of luck", "the caller was told: " + ends.of_all);
    for (const std::size_t rank : Sizes{0, 1})
        expect(ends.of_rank[rank] == "rank 2 has failed: out of luck",
               "a rank was told: " + ends.of_rank[rank]);
    expect_no_deadline();
}

/// Rank 2 is busy until rank 1 has given up; rank 0 needs neither.
void peer_hangs() {
    Crowd crowd;
    const Ends ends = run([&](Peers& peers) {
        if (peers.rank() == 2)
            crowd.come_and_wait_for(2);
        if (peers.rank() == 1)
            try {
                take(peers, 2, 1);
            } catch (const Aborted&) {
                crowd.come_and_wait_for(1);
                throw;
            }
    });
    ends.expect_all("rank 2 did not send its parameters (message 1) to rank 1 within 5 s");
    ends.expect_told({1});
    expect(ends.of_rank[0].empty(), "a rank that needed nobody was told: " + ends.of_rank[0]);
}

/// Deadlines may pass at any time: no rank reads freed memory, and each error names a rank.
void impatient_peers() {
    const Ends ends = run(ring);
    for (const std::string& end : ends.of_rank)
        expect(end.empty() || end.find(" did not send its parameters (message 0) to rank ") == 6,
               "a rank was told: " + end);
}

} // namespace

std::vector<Scenario> peer_scenarios() {
    return {
        {"ring", well(ring)},
        {"peers_stay", peers_stay},
        {"triangle", well(triangle)},
        {"used_again", well(used_again)},
        {"dropped", well(dropped)},
        {"never_taken", well(never_taken)},
        {"peer_leaves", peer_leaves},
        {"peer_fails", peer_fails},
        {"peer_hangs", peer_hangs},
        {"impatient_peers", impatient_peers, {.impatient = true}},
        {"peers_wake_for_nothing", well(triangle), {.wakes_for_nothing = true}},
    };
}

} // namespace truestep::distributed::model
