// Holds scenarios of exchanges between ranks, for the exploration of schedules.
#include "scenarios.hpp"

#include <stdexcept>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/workers.hpp>
#include <truestep/problem/error.hpp>

#include "ends.hpp"

namespace truestep::distributed::model {
namespace {

using namespace std::chrono_literals;

/// Two exchanges under way. Rank 1 waits for them in reverse order, and calls progress() in
/// between.
void two_at_once(Communicator& communicator) {
    AllGather first(communicator);
    AllToAll second(communicator);
    if (communicator.rank() == 1) {
        communicator.progress();
        second.wait();
        first.wait();
    } else {
        first.wait();
        second.wait();
    }
}

Ends run(const std::function<void(Communicator&)>& function) {
    Ends ends;
    try {
        distributed::run_ranks(
            static_cast<int>(ranks),
            [&](Communicator& communicator) {
                try {
                    function(communicator);
                } catch (const std::exception& error) {
                    ends.of_rank[rank_of(communicator)] = error.what();
                    throw;
                }
            },
            5s);
    } catch (const std::exception& error) {
        ends.of_all = error.what();
    }
    return ends;
}

std::function<void()> well(const std::function<void(Communicator&)>& function) {
    return [function] {
        const Ends ends = run(function);
        expect(ends.of_all.empty(), "the ranks ended: " + ends.of_all);
        expect_no_deadline();
    };
}

/// Rank 1 throws its own error while its exchange is under way: the caller gets it, and the others
/// the news, unless all have their data by then (rank 1 may have taken its own while it started).
void error_in_flight() {
    const Ends ends = run([](Communicator& communicator) {
        AllToAll exchange(communicator);
        if (communicator.rank() == 1)
            throw std::runtime_error("out of luck");
        exchange.wait();
    });
    expect(ends.of_all == "out of luck", "the caller was told: " + ends.of_all);
    for (const std::size_t rank : Sizes{0, 2})
        expect(ends.of_rank[rank].empty() ||
                   ends.of_rank[rank] == "rank 1: an error left a payload exchange unfinished",
               "a rank was told: " + ends.of_rank[rank]);
    expect_no_deadline();
}

/// Rank 1 aborts all before, while or after the others read its buffer.
void abort_in_flight() {
    const Ends ends = run([](Communicator& communicator) {
        AllToAll exchange(communicator);
        if (communicator.rank() == 1) {
            communicator.abort("enough");
            throw Aborted("rank 1: enough");
        }
        exchange.wait();
    });
    ends.expect_all("rank 1: enough");
    ends.expect_told({1});
    expect_no_deadline();
}

/// Rank 1 throws its own error after its exchange: the others have their data, or have not
/// finished.
void error_after() {
    const Ends ends = run([](Communicator& communicator) {
        AllToAll(communicator).wait();
        if (communicator.rank() == 1)
            throw std::runtime_error("out of luck");
    });
    expect(ends.of_all == "out of luck", "the caller was told: " + ends.of_all);
    for (const std::size_t rank : Sizes{0, 2})
        expect(ends.of_rank[rank].empty() || ends.of_rank[rank] == "rank 1: out of luck",
               "a rank was told: " + ends.of_rank[rank]);
    expect_no_deadline();
}

/// Rank 2 starts no exchange.
void leaves() {
    const Ends ends = run([](Communicator& communicator) {
        if (communicator.rank() != 2)
            AllToAll(communicator).wait();
    });
    ends.expect_all("rank 2 left before a payload exchange");
    ends.expect_told({0, 1});
    expect_no_deadline();
}

/// Rank 0 does not wait for its exchange, which is harmless if all have their data by then.
void drops() {
    const Ends ends = run([](Communicator& communicator) {
        AllToAll exchange(communicator);
        if (communicator.rank() != 0)
            exchange.wait();
    });
    ends.expect_all("rank 0: a payload exchange was never waited for");
    expect_no_deadline();
}

/// Rank 1 starts an exchange of another kind of traffic. Each rank reports the first that differs
/// from its own, and the first report counts.
void brings_another() {
    const Ends ends = run([](Communicator& communicator) {
        AllToAll(communicator, communicator.rank() == 1 ? Traffic::moment : Traffic::payload).wait();
    });
    const std::string other = " started a moment exchange (all-to-all) where rank ";
    const std::string own = " started a payload exchange (all-to-all)";
    const std::string first =
        "rank 1" + other + (ends.of_all.find("rank 0") != std::string::npos ? "0" : "2") + own;
    ends.expect_all(ends.of_all.starts_with("rank 1")
                        ? first
                        : "rank 0" + own + " where rank 1 started a moment exchange (all-to-all)");
    ends.expect_told({0, 1, 2});
    expect_no_deadline();
}

/// The others must proceed even if a rank does nothing more after its exchange.
void stays() {
    Crowd crowd;
    const Ends ends = run([&](Communicator& communicator) {
        AllToAll(communicator).wait();
        crowd.come_and_wait_for(ranks);
    });
    expect(ends.of_all.empty(), "the ranks ended: " + ends.of_all);
    expect_no_deadline();
}

/// Rank 2 is busy until the others have given up.
void never_comes() {
    Crowd crowd;
    const Ends ends = run([&](Communicator& communicator) {
        if (communicator.rank() == 2) {
            crowd.come_and_wait_for(ranks);
            return;
        }
        try {
            AllToAll(communicator).wait();
        } catch (const Aborted&) {
            crowd.come_and_wait_for(1);
            throw;
        }
    });
    ends.expect_all("rank 2 did not answer within 5 s in a payload exchange");
    ends.expect_told({0, 1});
}

/// Rank 0 waits for a mask that rank 2 has not taken, rank 1 in the exchange after it: rank 0 has
/// not reached that either, but waits itself.
void hangs_between() {
    Crowd masks;
    Crowd told;
    const Ends ends = run([&](Communicator& communicator) {
        AllGather mask(communicator);
        masks.come_and_wait_for(ranks);
        if (communicator.rank() == 2) {
            told.come_and_wait_for(ranks);
            return;
        }
        communicator.progress();
        try {
            if (communicator.rank() == 0)
                mask.wait();
            AllToAll(communicator).wait();
        } catch (const Aborted&) {
            told.come_and_wait_for(1);
            throw;
        }
    });
    const std::string late = "rank 2 did not answer within 5 s in a ";
    ends.expect_all(late + (ends.of_all.find("mask") != std::string::npos ? "mask" : "payload") +
                    " exchange");
    ends.expect_told({0, 1});
}

/// Deadlines may pass at any time: all ranks end, none reads freed memory, and each error names a
/// rank.
void impatient() {
    const Ends ends = run([](Communicator& communicator) { AllToAll(communicator).wait(); });
    for (const std::string& end : ends.of_rank)
        expect(end.empty() ||
                   end.find_first_of("012") < end.find(" did not answer within 5 s in a payload exchange"),
               "a rank was told: " + end);
}

void no_thread_for_a_rank() {
    const Ends ends = run([](Communicator& communicator) { AllToAll(communicator).wait(); });
    expect(ends.of_all.starts_with("only 2 of 3 ranks could be given a thread"),
           "the caller was told: " + ends.of_all);
    expect_no_deadline();
}

/// Two loops over the parts, the second over the results of the first.
std::function<void()> workers(int threads) {
    return [threads] {
        distributed::Workers pool(threads);
        std::vector<Plain<int>> done(static_cast<std::size_t>(threads));
        for (int round = 1; round <= 2; ++round) {
            pool.run([&](int part) {
                Plain<int>& mine = done[static_cast<std::size_t>(part)];
                mine = mine + round;
            });
            for (const Plain<int>& part : done)
                expect(part == round * (round + 1) / 2, "a part of a loop was not done once");
        }
    };
}

void no_thread_for_a_worker() {
    try {
        const distributed::Workers pool(3);
    } catch (const Error& error) {
        expect(std::string(error.what()).starts_with("threads is 3, but only 1 could be started"),
               error.what());
        return;
    }
    expect(false, "a thread was had that there was not");
}

} // namespace

std::vector<Scenario> scenarios() {
    std::vector<Scenario> all{
        {"all_to_all", well([](Communicator& communicator) { AllToAll(communicator).wait(); })},
        {"to_owners", well(to_owners)},
        {"all_gather", well([](Communicator& communicator) { AllGather(communicator).wait(); })},
        {"reduce_scatter", well(reduce_scatter)},
        {"two_at_once", well(two_at_once)},
        {"stays", stays},
        {"error_in_flight", error_in_flight},
        {"abort_in_flight", abort_in_flight},
        {"error_after", error_after},
        {"leaves", leaves},
        {"drops", drops},
        {"brings_another", brings_another},
        {"never_comes", never_comes},
        {"hangs_between", hangs_between},
        {"impatient", impatient, {.impatient = true}},
        {"wakes_for_nothing",
         well([](Communicator& communicator) { AllToAll(communicator).wait(); }),
         {.wakes_for_nothing = true}},
        {"no_thread_for_a_rank", no_thread_for_a_rank, {.threads_to_be_had = 2}},
        {"workers_1", workers(1)},
        {"workers_2", workers(2)},
        {"workers_3", workers(3), {.wakes_for_nothing = true}},
        {"no_thread_for_a_worker", no_thread_for_a_worker, {.threads_to_be_had = 1}},
    };
    for (Scenario& of_peers : peer_scenarios())
        all.push_back(std::move(of_peers));
    return all;
}

Scenario scenario(const std::string& name, int planted) {
    for (Scenario& found : scenarios())
        if (found.name == name) {
            found.world.planted = planted;
            return found;
        }
    throw std::invalid_argument("no scenario: " + name);
}

} // namespace truestep::distributed::model
