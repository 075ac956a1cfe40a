// What must always hold of exchanges and messages between ranks (section 43).
#include <algorithm>

#include <truestep/gate/trial.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

namespace {

/// One case under judgement.
class Trial : public gate::TrialOf<Case> {
  public:
    Trial(const gate::Implementation& tested, const Case& judged_case)
        : TrialOf(judged_case, {}), implementation(dynamic_cast<const Implementation&>(tested)) {}

    const Implementation& implementation;

  protected:
    gate::Finding::Size size(std::int64_t /*number*/) const override {
        return {run.bytes, static_cast<int>(run.workers), run.exchanges};
    }
};

std::string place(std::size_t number, std::size_t rank) {
    return " " + std::to_string(number) + ": rank " + std::to_string(rank);
}

void same_bytes(Trial& trial, const Buffer& expected, const Buffer& received, const std::string& what,
                std::size_t number) {
    const auto differs = std::ranges::mismatch(expected, received);
    const bool same = differs.in1 == expected.end() && differs.in2 == received.end();
    trial.expect(same, static_cast<std::int64_t>(number), [&] {
        return what + " has " + std::to_string(received.size()) + " bytes of which number " +
               std::to_string(differs.in1 - expected.begin()) + " is not what was sent; " +
               std::to_string(expected.size()) + " are awaited";
    });
}

void same_counts(Trial& trial, const Sent& expected, const Sent& counted, std::size_t rank,
                 const std::string& when) {
    const auto compare = [&](const distributed::Bytes& should, const distributed::Bytes& is,
                             const std::string& of) {
        for (std::size_t kind = 0; kind < is.size(); ++kind)
            trial.expect(should[kind] == is[kind], 0, [&] {
                return "rank " + std::to_string(rank) + " sends " + std::to_string(should[kind]) + " " +
                       std::string(distributed::name(static_cast<Traffic>(kind))) + " " + of + when +
                       "; it counts " + std::to_string(is[kind]);
            });
    };
    compare(expected.bytes, counted.bytes, "bytes");
    compare(expected.exchanges, counted.exchanges, "exchanges");
    compare(expected.messages, counted.messages, "messages");
}

void arrives_as_sent(Trial& trial) {
    const std::vector<Seen> seen = trial.implementation.exchanges(trial.run);
    for (std::size_t number = 0; number < static_cast<std::size_t>(trial.run.exchanges); ++number) {
        const Plan plan = plan_of(trial.run, number);
        for (std::size_t rank = 0; rank < plan.ranks(); ++rank)
            same_bytes(trial, arrives(trial.run, plan, number, rank), seen.at(rank).received.at(number),
                       "exchange" + place(number, rank), number);
    }
}

void is_counted(Trial& trial) {
    const std::vector<Seen> seen = trial.implementation.exchanges(trial.run);
    const auto all = static_cast<std::size_t>(trial.run.exchanges);
    for (std::size_t rank = 0; rank < plan_of(trial.run, 0).ranks(); ++rank) {
        same_counts(trial, sent_in(trial.run, rank, 0, all / 2), seen.at(rank).first_half, rank, "");
        same_counts(trial, sent_in(trial.run, rank, all / 2, all), seen[rank].second_half, rank,
                    " after its counts were set to 0");
    }
}

void messages(Trial& trial) {
    const std::vector<Seen> seen = trial.implementation.messages(trial.run);
    std::vector<Sent> sent(seen.size());
    for (std::size_t number = 0; number < static_cast<std::size_t>(trial.run.exchanges); ++number) {
        const Message one = message_of(trial.run, number);
        const auto to = static_cast<std::size_t>(one.to);
        same_bytes(trial, one.dropped ? Buffer() : one.bytes, seen.at(to).received.at(number),
                   "message" + place(number, to), number);
        const auto kind = static_cast<std::size_t>(one.traffic);
        sent[static_cast<std::size_t>(one.from)].bytes[kind] += one.bytes.size();
        ++sent[static_cast<std::size_t>(one.from)].messages[kind];
    }
    same_bytes(trial, last_message(), seen.at(1).received.back(), "a message whose sender has left",
               static_cast<std::size_t>(trial.run.exchanges));
    const std::string told(seen.at(1).ended.begin(), seen.at(1).ended.end());
    trial.expect(told == "rank 0 has failed: " + std::string(last_words), trial.run.exchanges, [&] {
        return "rank 1 waits for a message of rank 0, which has left, and is told '" + told + "'";
    });
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        same_counts(trial, sent[rank], seen[rank].first_half, rank, "");
        same_counts(trial, {}, seen[rank].second_half, rank, " after its counts were set to 0");
        trial.expect(seen[rank].kept == 0, trial.run.exchanges, [&] {
            return "rank " + std::to_string(rank) + " does not get " + std::to_string(seen[rank].kept) +
                   " of its messages back after they were taken";
        });
    }
}

void is_told(Trial& trial) {
    const std::vector<Seen> seen = trial.implementation.faults(trial.run);
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        const std::string told(seen[rank].ended.begin(), seen[rank].ended.end());
        const std::vector<std::string> texts = texts_for(trial.run, static_cast<int>(rank));
        trial.expect(std::ranges::find(texts, told) != texts.end(), trial.run.exchanges, [&] {
            return "rank " + std::to_string(rank) +
                   (told.empty() ? " is told nothing" : " is told '" + told + "'") + " where " +
                   (texts.front().empty() ? "nothing is wrong for it"
                                          : "it should be '" + texts.front() + "'");
        });
    }
    if (!others_give_up(trial.run))
        return;
    const std::string printed(seen.front().printed.begin(), seen.front().printed.end());
    for (const std::string& line : lines_about(trial.run))
        trial.expect(printed.find(line) != std::string::npos, trial.run.exchanges,
                     [&] { return "who waits for whom lacks '" + line + "': " + printed; });
}

Case with_two_ranks(Case run) {
    run.workers = std::max<Index>(run.workers, 2);
    return run;
}

Case for_messages(Case run) {
    if (run.way != Way::disturbed && run.way != Way::pieces)
        run.way = Way::plain;
    return with_two_ranks(run);
}

Case for_faults(Case run) {
    run.way = run.way == Way::peers ? Way::peers : Way::plain;
    if (run.way == Way::peers && run.fault == Fault::drops) // a sender drops no message, and takes none
        run.fault = Fault::leaves;
    if (run.way == Way::peers && run.fault == Fault::takes_nothing)
        run.fault = Fault::hangs;
    return with_two_ranks(run);
}

} // namespace

std::vector<gate::Property> properties() {
    const gate::Demands<Case> usual{"several ranks", "several at once"};
    gate::Property faults = spec().property(
        3, "faults", "A rank that exchanges otherwise than the others, or ends, is named to them.",
        gate::judged_by(is_told), {"of peers", "a rank hangs"}, for_faults);
    faults.skipped = [](const gate::Implementation& tested) {
        return tested.communicator() == "in_process" ? "" : "a fault ends all ranks of MPI, the gate's too";
    };
    gate::Property of_pairs =
        spec().property(2, "messages", "Messages between pairs arrive in their order, and are let go.",
                        gate::judged_by(messages), usual, for_messages);
    of_pairs.skipped = [](const gate::Implementation& tested) {
        return tested.takes(2) ? "" : "a message takes two ranks";
    };
    return {spec().property(1, "counts", "What a rank sends is counted, by kind of traffic.",
                            gate::judged_by(is_counted), usual),
            of_pairs, faults,
            spec().property(0, "reference", "Each byte arrives where it was sent to, and no other changes.",
                            gate::judged_by(arrives_as_sent), usual)};
}

} // namespace truestep::properties::exchange
