// Plays a case in which one rank does otherwise than the others, on threads.
#include <algorithm>
#include <barrier>
#include <concepts>
#include <latch>
#include <optional>
#include <stdexcept>

#include <sys/mman.h>
#include <unistd.h>

#include <truestep/distributed/peers.hpp>
#include <truestep/problem/error.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

using distributed::Communicator;
using distributed::Peers;

/// What ranks outside of exchanges and messages tell each other, for one that hangs.
struct Signs {
    explicit Signs(int ranks) : all(ranks), others(ranks - 1), others_are_told(ranks - 1) {}
    std::barrier<> all;
    std::barrier<> others;
    std::latch witness_is_told{1};
    std::latch others_are_told;
};

/// An exchange for which no rank waits longer than its short patience, whatever the machine does.
void play_when_all_have_come(Communicator& ranks, Signs& signs) {
    Buffer received(index(ranks.size()));
    const std::vector<std::size_t> sizes(received.size(), 1);
    const auto exchange =
        ranks.start_all_gather(earlier_traffic, &received[index(ranks.rank())], received.data(), sizes);
    signs.all.arrive_and_wait();
    ranks.progress();
    signs.all.arrive_and_wait();
    exchange->wait();
}

/// The exchanges before the fault, the one with it, and one more after a dropped one.
void play_fault(const Case& run, Communicator& ranks, Signs& signs) {
    if (others_give_up(run)) {
        for (int earlier = 0; earlier < earlier_exchanges; ++earlier)
            play_when_all_have_come(ranks, signs);
    } else {
        Seen ignored;
        play_exchanges(run, ranks, ignored);
    }
    const auto is = [&](Fault fault) { return ranks.rank() == faulty(run) && run.fault == fault; };
    if (is(Fault::leaves))
        return;
    if (is(Fault::throws))
        throw std::runtime_error(reason_of(run));
    if (is(Fault::aborts))
        ranks.abort(reason_of(run));
    if (is(Fault::hangs))
        return signs.others_are_told.wait();
    const Traffic traffic = is(Fault::traffic) ? other_traffic(run) : faulty_traffic(run);
    const std::vector<std::size_t> receives(index(ranks.size()), awaited_size(run));
    std::vector<std::size_t> sends = receives;
    if (is(Fault::size))
        sends[index(witness(run))] = other_size(run);
    const Buffer send(std::max(awaited_size(run), other_size(run)) * sends.size());
    Buffer receive(awaited_size(run) * sends.size());
    if (run.fault == Fault::takes_nothing && ranks.rank() != faulty(run))
        signs.all.arrive_and_wait(); // it has come: the last rank to come takes at once
    auto exchange = is(Fault::operation)
                        ? ranks.start_all_gather(traffic, send.data(), receive.data(), receives)
                        : ranks.start_all_to_all(traffic, send.data(), sends, receive.data(), receives);
    if (is(Fault::drops))
        exchange.reset();
    if (is(Fault::takes_nothing)) {
        signs.all.arrive_and_wait();
        return signs.others_are_told.wait();
    }
    if (others_give_up(run)) { // no other rank is late
        signs.others.arrive_and_wait();
        ranks.progress();
        signs.others.arrive_and_wait();
    }
    if (exchange)
        exchange->wait();
    if (run.fault == Fault::drops) // the others may have had all of the exchange before
        ranks.start_all_to_all(traffic, send.data(), receives, receive.data(), receives)->wait();
}

/// A message to the witness that comes otherwise, and one that depends on it.
void play_fault(const Case& run, Peers& peers, Signs& signs) {
    const auto last = static_cast<std::uint64_t>(run.exchanges);
    const int from = faulty(run);
    const int to = witness(run);
    const std::size_t size = awaited_size(run);
    const auto message = std::make_shared<Buffer>(std::max(size, other_size(run)));
    const auto send = [&](Traffic traffic, int peer, std::uint64_t number, std::size_t bytes) {
        peers.send(traffic, peer, number, {message, message->data()}, bytes);
    };
    const auto take = [&](Traffic traffic, int peer, std::uint64_t number) {
        (void)peers.receive(traffic, peer, number, size)->wait(size);
    };
    if (peers.rank() == to)
        send(earlier_traffic, from, 0, size);
    signs.all.arrive_and_wait();
    if (peers.rank() == from) {
        take(earlier_traffic, to, 0);
        signs.all.arrive_and_wait();
        switch (run.fault) {
        case Fault::throws:
            throw std::runtime_error(reason_of(run));
        case Fault::aborts:
            return peers.leave(reason_of(run));
        case Fault::hangs:
            return signs.others_are_told.wait();
        case Fault::leaves:
            return;
        default:
            return send(run.fault == Fault::traffic ? other_traffic(run) : faulty_traffic(run), to,
                        run.fault == Fault::operation ? last + 1 : last,
                        run.fault == Fault::size ? other_size(run) : size);
        }
    }
    signs.all.arrive_and_wait();
    if (peers.rank() == to) {
        take(faulty_traffic(run), from, last);
    } else if (peers.rank() == dependent(run)) {
        signs.witness_is_told.wait(); // it knows by then why nothing comes
        take(faulty_traffic(run), to, last);
    }
}

/// Keeps what all threads write to standard error from the terminal.
class CapturedError {
  public:
    CapturedError() : terminal_(dup(STDERR_FILENO)), file_(memfd_create("stderr", MFD_CLOEXEC)) {
        if (file_ < 0 || dup2(file_, STDERR_FILENO) < 0)
            throw Error("what is printed to standard error cannot be kept in memory");
    }
    CapturedError(const CapturedError&) = delete;
    CapturedError& operator=(const CapturedError&) = delete;
    ~CapturedError() {
        dup2(terminal_, STDERR_FILENO);
        close(terminal_);
        close(file_);
    }
    [[nodiscard]] std::vector<char> text() const {
        const off_t size = lseek(file_, 0, SEEK_END);
        std::vector<char> all(static_cast<std::size_t>(size));
        if (pread(file_, all.data(), all.size(), 0) != size)
            throw std::runtime_error("standard error cannot be read back");
        return all;
    }

  private:
    int terminal_;
    int file_;
};

} // namespace

std::vector<Seen> Implementation::faults(const Case& run) const {
    const auto workers = static_cast<int>(run.workers);
    std::vector<Seen> mine(index(workers));
    Signs signs(workers);
    const auto played = [&](auto& ranks) {
        const auto ended = [&](const std::string& text) {
            mine[index(ranks.rank())].ended.assign(text.begin(), text.end());
            if (ranks.rank() == witness(run))
                signs.witness_is_told.count_down();
            if (ranks.rank() != faulty(run))
                signs.others_are_told.count_down();
        };
        try {
            play_fault(run, ranks, signs);
        } catch (const std::exception& error) {
            // What is wrong with a communicator must not keep the others waiting outside of it.
            signs.all.arrive_and_drop();
            if (ranks.rank() != faulty(run))
                signs.others.arrive_and_drop();
            if constexpr (std::same_as<decltype(ranks), Peers&>)
                ranks.leave(error.what()); // before those that depend on it ask
            ended(error.what());
            throw;
        }
        ended("");
    };
    const auto brief = gate::make_thread_group(short_patience);
    const gate::Group& threads = others_give_up(run) ? *brief : group();
    std::optional<CapturedError> error;
    if (others_give_up(run))
        error.emplace();
    try {
        if (run.way == Way::peers)
            threads.run_peers(workers, played);
        else
            threads.run(workers, played);
    } catch (const Error&) { // this machine's, not the fault
        throw;
    } catch (const std::runtime_error&) { // each rank has kept its text
    }
    if (error)
        mine.front().printed = error->text();
    return shared(run, std::move(mine));
}

} // namespace truestep::properties::exchange
