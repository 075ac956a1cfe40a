// What the fault of a case is, and what each rank has to be told of it.
#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

// These texts are spelled apart from those in distributed/communicator, which they judge.

std::string rank_text(int rank) {
    return "rank " + std::to_string(rank);
}

std::string exchange_text(Traffic traffic) {
    return (traffic == Traffic::agreement ? "an " : "a ") + std::string(distributed::name(traffic)) +
           " exchange";
}

std::string message_text(Traffic traffic, Index number) {
    return std::string(distributed::name(traffic)) + " (message " + std::to_string(number);
}

/// The texts about a fault among ranks that exchange together.
std::vector<std::string> texts_of_exchange(const Case& run) {
    const std::string bad = rank_text(faulty(run));
    const std::string where = exchange_text(faulty_traffic(run));
    switch (run.fault) {
    case Fault::size:
        return {bad + " sends " + std::to_string(other_size(run)) + " bytes in " + where + " where " +
                rank_text(witness(run)) + " awaits " + std::to_string(awaited_size(run))};
    case Fault::traffic:
    case Fault::operation: {
        const std::string usual = " started " + where + " (all-to-all)";
        const std::string other = run.fault == Fault::operation
                                      ? " started " + where + " (all-gather)"
                                      : " started " + exchange_text(other_traffic(run)) + " (all-to-all)";
        std::vector<std::string> texts;
        for (int rank = 0; rank < run.workers; ++rank)
            if (rank != faulty(run)) {
                texts.push_back(bad + other + " where " + rank_text(rank) + usual);
                texts.push_back(rank_text(rank) + usual + " where " + bad + other);
            }
        return texts;
    }
    case Fault::drops:
        return {bad + ": " + where + " was never waited for"};
    case Fault::leaves:
        return {bad + " left before " + where};
    case Fault::throws:
    case Fault::aborts:
        return {bad + ": " + reason_of(run)};
    case Fault::hangs:
    case Fault::takes_nothing:
        return {bad + " did not answer within 0.1 s in " + where};
    }
    return {};
}

/// The text about a fault of a message.
std::string text_of_message(const Case& run) {
    const std::string bad = rank_text(faulty(run));
    const std::string to = rank_text(witness(run));
    const auto label = [](Traffic traffic, Index number, std::size_t size) {
        return "its " + message_text(traffic, number) + ", " + std::to_string(size) + " bytes)";
    };
    const auto instead = [&](const std::string& other) {
        return bad + " sent " + other + " where " + to + " awaits " +
               label(faulty_traffic(run), run.exchanges, awaited_size(run));
    };
    const std::string missing = " its " + message_text(faulty_traffic(run), run.exchanges) + ") to " + to;
    switch (run.fault) {
    case Fault::size:
        return instead(label(faulty_traffic(run), run.exchanges, other_size(run)));
    case Fault::traffic:
        return instead(label(other_traffic(run), run.exchanges, awaited_size(run)));
    case Fault::operation:
        return instead(label(faulty_traffic(run), run.exchanges + 1, awaited_size(run)));
    case Fault::leaves:
        return bad + " has left and did not send" + missing;
    case Fault::throws:
    case Fault::aborts:
        return bad + " has failed: " + reason_of(run);
    default: // hangs
        return bad + " did not send" + missing + " within 0.1 s";
    }
}

} // namespace

int faulty(const Case& run) {
    return static_cast<int>(run.random(For::faults, {0}) % static_cast<std::uint64_t>(run.workers));
}

int witness(const Case& run) {
    const auto others = static_cast<std::uint64_t>(run.workers - 1);
    return static_cast<int>(
        (static_cast<std::uint64_t>(faulty(run)) + 1 + run.random(For::faults, {1}) % others) %
        (others + 1));
}

int dependent(const Case& run) {
    for (int rank = 0; rank < run.workers; ++rank)
        if (rank != faulty(run) && rank != witness(run))
            return rank;
    return -1;
}

Traffic faulty_traffic(const Case& run) {
    return static_cast<Traffic>(run.random(For::faults, {2}) % distributed::traffic_kinds);
}

Traffic other_traffic(const Case& run) {
    const auto kind = static_cast<std::size_t>(faulty_traffic(run));
    return static_cast<Traffic>((kind + 1) % distributed::traffic_kinds);
}

std::size_t awaited_size(const Case& run) {
    return static_cast<std::size_t>(run.bytes) + 1;
}

std::size_t other_size(const Case& run) {
    return awaited_size(run) + 1 - 2 * (run.random(For::faults, {3}) % 2);
}

std::string reason_of(const Case& run) {
    return run.fault == Fault::throws ? "on purpose" : "the disk is full";
}

std::vector<std::string> texts_for(const Case& run, int rank) {
    if (rank == faulty(run) && run.fault == Fault::throws)
        return {reason_of(run)};
    const bool goes_on = rank == faulty(run) && (run.fault == Fault::leaves || others_give_up(run));
    if (run.way != Way::peers)
        return goes_on ? std::vector<std::string>{""} : texts_of_exchange(run);
    return {rank == witness(run) || rank == dependent(run) ? text_of_message(run) : ""};
}

std::vector<std::string> lines_about(const Case& run) {
    const auto number = [](int of) { return " (number " + std::to_string(of) + ")"; };
    const std::string bad = rank_text(faulty(run));
    const std::string earlier = run.way == Way::peers
                                    ? message_text(earlier_traffic, 0) + ")"
                                    : exchange_text(earlier_traffic) + number(earlier_exchanges - 1);
    const std::string now = run.way == Way::peers
                                ? message_text(faulty_traffic(run), run.exchanges) + ")"
                                : exchange_text(faulty_traffic(run)) + number(earlier_exchanges);
    return {"  " + bad + " does not wait: its last wait, in " + earlier + ", began ",
            " s for " + bad + " in " + now + "\n"};
}

} // namespace truestep::properties::exchange
