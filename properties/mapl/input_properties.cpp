// Properties of bad input: what is refused, and that nothing changes then.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <set>
#include <span>
#include <utility>

#include <truestep/gate/changed_setting.hpp>

#include "family.hpp"
#include "resumed_scenario.hpp"

namespace truestep::properties::mapl {

namespace {

// 16. Bad input to a call: one line, nothing sent, and the run continues as if it had not come.
void refusals(Trial& trial) {
    const bool overflows = trial.run.codewords > 1 && trial.run.dyadic();
    if (overflows)
        add_large_codeword(trial.scenario);
    trial.seen = trial.play(trial.scenario);
    std::vector<std::pair<Flaw, const char*>> flaws{
        {Flaw::activation_not_finite, "an activation that is not finite"},
        {Flaw::gradient_not_finite, "a gradient that is not finite"}};
    if (trial.run.vocabulary < greatest_vocabulary)
        flaws.emplace_back(Flaw::id_beyond, "an id beyond the vocabulary");
    if (trial.run.payload == Payload::bf16 && trial.run.dyadic() && trial.run.codewords == 0) {
        flaws.emplace_back(Flaw::activation_too_large, "an activation too large for its payload");
        flaws.emplace_back(Flaw::gradient_too_large, "a gradient too large for its payload");
        trial.judged.kind(true, "too large a payload");
    }
    if (overflows) {
        flaws.emplace_back(Flaw::codeword_too_large, "tokens whose codeword would overflow");
        trial.judged.kind(true, "too large a codeword");
    }
    if (trial.candidate.names_differences()) { // others may have nothing of this
        flaws.emplace_back(Flaw::last_not_finite, "another micro-batch, which is not finite");
        flaws.emplace_back(Flaw::state_within_a_step, "a question for its state within a step");
        flaws.emplace_back(Flaw::unlike_expected, "more tokens than it expects");
        flaws.emplace_back(Flaw::rate_impossible, "a rate that cannot be");
        if (trial.run.anchors == Anchors::shared || trial.run.anchors == Anchors::two)
            flaws.emplace_back(Flaw::anchor_within_a_step, "another anchor within a step");
    }
    for (const auto& [flaw, what] : flaws) {
        Scenario flawed = trial.scenario;
        flawed.flaw = flaw;
        const std::vector<RankRecording> seen = trial.play(flawed);
        for (std::size_t rank = 0; rank < seen.size(); ++rank) {
            const bool of_receiver = flaw == Flaw::gradient_not_finite ||
                                     flaw == Flaw::gradient_too_large || flaw == Flaw::unlike_expected;
            const bool of_both = flaw == Flaw::state_within_a_step || flaw == Flaw::anchor_within_a_step;
            const bool concerned = of_both || (of_receiver ? rank > 0 : rank + 1 < seen.size());
            const auto found = seen[rank].refused.find("flaw");
            if (concerned)
                trial.expect(
                    found != seen[rank].refused.end() && !found->second.empty() &&
                        found->second.find('\n') == std::string::npos,
                    0, [&, &named = what] { return "rank " + std::to_string(rank) + " takes " + named; });
        }
        trial.same(trial.seen, seen, std::string("that of a run without ") + what);
    }
}
Case something_to_refuse(Case run) {
    run.restart = 0;
    if (run.seed % 4 == 1)
        run.data = DataClass::dyadic;
    if (run.seed % 4 == 0) {
        run = nothing_lost(run);
        run.payload = Payload::bf16;
        run.data = DataClass::dyadic;
    }
    return run;
}

bool begins_with(const std::vector<std::uint8_t>& message, const Floats& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return message.size() >= bytes.size() && std::memcmp(message.data(), bytes.data(), bytes.size()) == 0;
}

/// A step with a finite gradient and a first moment so large that its projection may overflow. Where A does
/// not follow, A and m are those before.
void overflow_of_projection(Trial& trial) {
    Scenario large = trial.scenario;
    large.overflows = -1;
    large.run.steps = 2;
    large.other_start = [](int, Side side, EndState& state) {
        if (side == Side::sender)
            for (std::size_t i = 0; i < state.m.size(); ++i)
                state.m[i] = 0x1.fp127F * state.a[i];
    };
    const std::vector<RankRecording> seen = trial.play(large);
    for (const int rank : trial.scenario.senders()) {
        const RankRecording& sender = seen[static_cast<std::size_t>(rank)];
        for (Index step = 0; step < large.run.steps; ++step) {
            if (sender.at(key(step, "updated")).front() != 0.0F)
                continue;
            trial.judged.kind(true, "a projection overflows");
            const std::string text =
                boundary_text(trial.scenario, rank, "after " + key(step, "a projection overflowed, "));
            for (const char* what : {"s.A", "s.m"})
                trial.same(sender.at(key(step, what)), sender.at(key(step + 1, what)), step, text + what,
                           "that before it");
        }
    }
}

// 16. A step whose inputs are finite, but not the last replica's own gradient of A, and so not the mean.
void overflow(Trial& trial) {
    const Index of = 1; // m is no longer 0
    trial.scenario.overflows = of;
    trial.seen = trial.play(trial.scenario);
    for (const int rank : trial.scenario.senders()) {
        const RankRecording& sender = trial.seen[static_cast<std::size_t>(rank)];
        const RankRecording& receiver = trial.seen[static_cast<std::size_t>(rank) + 1];
        const auto text = [&](const auto& what) { return boundary_text(trial.scenario, rank, what); };
        for (Index step = 0; step < trial.run.steps; ++step) {
            const bool follows = sender.at(key(step, "updated")).front() != 0.0F;
            trial.expect(follows == (step != of), step, [&] {
                return text(key(step, follows ? "A is said to follow what is not finite"
                                              : "A is said not to follow what is finite"));
            });
        }
        for (const char* what : {"s.A", "s.m"})
            trial.same(sender.at(key(of, what)), sender.at(key(of + 1, what)), of,
                       text(std::string(what) + " after " + key(of, "an overflow")), "that before it");
        trial.same(sender.at(key(of, "s.A")), receiver.at(key(of + 1, "r.A")), of,
                   text("r.A after " + key(of, "an overflow")), "the sender's before it");
        const auto sent = sender.wire.find(wire_key(key(of, "end"), trial.scenario.stage_of(rank) + 1));
        trial.expect(sent != sender.wire.end() && begins_with(sent->second, sender.at(key(of, "s.A"))), of,
                     [&] { return text(key(of, "A is not sent after an overflow")); });
    }
    if (!trial.judged.finding) // else there may be no state to begin from
        goes_on_from(trial, of + 1);
    if (!trial.judged.finding)
        overflow_of_projection(trial);
}

Case overflows_in_the_middle(Case run) {
    run = spec().without(run, {{"codewords", ""}}); // they would be as large, and the next step refused
    run.data = DataClass::normal;                   // or products may be 0
    run.restart = 0;
    run.steps = 3;
    run.tokens = std::max<Index>(run.tokens, 1);
    run.micro = std::max<Index>(run.micro, 1);
    if (run.replicas == 1)
        run = spec().without(run, {{"trainer", ""}});
    else if (run.anchors != Anchors::none)
        run.anchors = Anchors::fixed; // the trainer would follow a table's gradient
    return run;
}

bool is_one_line(const std::string& text) {
    return !text.empty() && text.find('\n') == std::string::npos;
}

/// Whether only the comparison at the start and what is named here were sent.
bool sent_nothing_but(const RankRecording& seen, const std::string& what) {
    return std::ranges::all_of(seen.wire, [&](const auto& sent) {
        return sent.first.starts_with("start") || sent.first.find(what) != std::string::npos;
    });
}

/// Tries a start that both sides of the boundary must refuse, in a line with `field`.
void refused_start(Trial& trial, const std::string& what, const std::function<void(Scenario&)>& change,
                   const std::string& field = "") {
    Scenario flawed = trial.scenario;
    change(flawed);
    std::vector<RankRecording> seen = trial.play(flawed);
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        const std::string line = seen[rank].refused["start"];
        trial.expect(
            is_one_line(line) && seen[rank].values.empty() && sent_nothing_but(seen[rank], "start"), 0,
            [&, &named = what] { return "rank " + std::to_string(rank) + " begins with " + named; });
        trial.expect(!trial.candidate.names_differences() || line.find(field) != std::string::npos, 0,
                     [&, &named = what] {
                         return "rank " + std::to_string(rank) + " does not begin with " + named +
                                ", but its line does not name '" + field + "': " + line;
                     });
    }
}

/// Tries a start with the receiver's side of another case. It ends at the start, since what two such sides
/// would do next is undefined.
void other_shape(Trial& trial, const std::string& field, const std::function<void(Case&)>& change) {
    Case changed = trial.run;
    change(changed);
    refused_start(
        trial, "other " + field + " than the other side",
        [&, other = scenario_of(changed)](Scenario& flawed) {
            flawed.settings = [mine = flawed.settings, other](Index boundary, Side side) {
                return side == Side::receiver ? other.settings(boundary, side) : mine(boundary, side);
            };
            flawed.state = [mine = flawed.state, other](Index boundary, Side side) {
                return side == Side::receiver ? other.state(boundary, side) : mine(boundary, side);
            };
            flawed.ends_at_start = true;
        },
        field);
}

void other_shapes(Trial& trial) {
    const Case& run = trial.run;
    other_shape(trial, "width", [](Case& other) { ++other.width; });
    if (run.width > 1)
        other_shape(trial, "rank", [](Case& other) {
            other.rank = other.rank > 1 ? other.rank - 1 : 2;
            other.groups = 1;
        });
    other_shape(trial, "vocabulary",
                [](Case& other) { other.vocabulary += other.vocabulary < greatest_vocabulary ? 1 : -1; });
    for (const Anchors anchors : {Anchors::none, Anchors::fixed, Anchors::shared, Anchors::two})
        if (anchors != run.anchors && run.vocabulary <= most_anchored)
            other_shape(trial, "anchors", [&](Case& other) { other.anchors = anchors; });
    other_shape(trial, "codewords",
                [](Case& other) { other.codewords = other.codewords == 0 ? 4 : 2 * other.codewords; });
    if (run.codewords == 0)
        return;
    other_shape(trial, "codewords", [](Case& other) {
        other.codewords = 0;
        other.groups = other.rounds = other.subsets = 1;
    });
    if (run.rank > 1)
        other_shape(trial, "groups",
                    [](Case& other) { other.groups = other.groups == 1 ? other.rank : 1; });
    other_shape(trial, "rounds", [](Case& other) { ++other.rounds; });
    other_shape(trial, "subsets",
                [](Case& other) { other.subsets = other.subsets == 1 ? other.codewords : 1; });
}

/// The number of the receiver's tokens is no setting, so a difference shows only in the first message.
void other_tokens(Trial& trial) {
    for (const Index more : {Index{1}, Index{-1}}) {
        if (trial.run.tokens + more < 0)
            continue;
        Scenario flawed = trial.scenario;
        flawed.awaits_more = more;
        std::vector<RankRecording> seen = trial.play(flawed);
        for (std::size_t rank = 0; rank < seen.size(); ++rank) {
            bool nothing_came = true; // nothing that needs the other side's message
            for (const auto& shown : seen[rank].values)
                nothing_came = nothing_came && !shown.first.ends_with("Xhat") &&
                               !shown.first.ends_with("dX") && !shown.first.starts_with("step 1");
            const bool sends = rank == 0;
            trial.expect(is_one_line(seen[rank].refused["ended"]) && nothing_came &&
                             sent_nothing_but(seen[rank], sends ? "forward" : "start"),
                         0, [&] {
                             return "rank " + std::to_string(rank) +
                                    " goes on where the receiver expects " +
                                    std::to_string(trial.run.tokens + more) + " tokens for " +
                                    std::to_string(trial.run.tokens);
                         });
        }
    }
}

// 16. Settings that are impossible, and settings that differ.
void refused_starts(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    const auto both = [&](const std::string& what, const std::function<void(Settings&)>& change) {
        refused_start(trial, what, [&](Scenario& flawed) {
            flawed.settings = [inner = trial.scenario.settings, change](Index boundary, Side side) {
                Settings settings = inner(boundary, side);
                change(settings);
                return settings;
            };
        });
    };
    const auto drawn = static_cast<std::uint64_t>(trial.run.seed);
    const auto [impossible, all] = gate::impossible_settings(Settings{}, drawn);
    for (std::size_t which = 0; which < all.size(); ++which)
        both("an impossible " + impossible, [drawn, which](Settings& settings) {
            settings = gate::impossible_settings(settings, drawn).second[which];
        });
    both("a rank above the width", [](Settings& settings) { settings.rank = settings.width + 1; });
    const auto changed = [&](const std::function<void(Side, EndState&)>& change) {
        return [&inner = trial.scenario.state, change](Scenario& flawed) {
            flawed.state = [inner, change](Index boundary, Side side) {
                EndState state = inner(boundary, side);
                change(side, state);
                return state;
            };
        };
    };
    refused_start(trial, "a subspace off the manifold", changed([](Side, EndState& state) {
                      for (float& value : state.a)
                          value *= 1.01F;
                  }));
    const auto not_finite = [&](const std::string& what, Floats EndState::*part) {
        refused_start(trial, what + " that is not finite", [&](Scenario& flawed) {
            changed([part](Side, EndState& state) {
                if (!(state.*part).empty()) // only the sender has m
                    (state.*part).back() = std::numeric_limits<float>::quiet_NaN();
            })(flawed);
            flawed.ends_at_start = true;
        });
    };
    not_finite("a subspace", &EndState::a);
    not_finite("m", &EndState::m);
    if (trial.run.anchors != Anchors::none)
        not_finite("an anchor", &EndState::anchor);
    const auto unequal = [&](const std::string& field, const std::function<void(Settings&)>& change) {
        const auto differ = [&](Scenario& flawed) {
            flawed.settings = [inner = trial.scenario.settings, change](Index boundary, Side side) {
                Settings settings = inner(boundary, side);
                if (side == Side::receiver)
                    change(settings);
                return settings;
            };
        };
        refused_start(trial, "other " + field + " than the other side", differ, field);
    };
    // Those that other sizes follow from come with other_shapes().
    std::set<std::string> sizes{"width",     "rank",   "vocabulary", "anchors",
                                "codewords", "groups", "rounds",     "subsets"};
    if (trial.run.codewords == 0)
        sizes.insert("decay");
    for (const std::string& field : gate::names_of_settings(Settings{}, sizes))
        unequal(field, [&field](Settings& settings) { gate::change_setting(settings, field); });
    if (trial.run.codewords > 0) {
        refused_start(trial, "a first codeword that is not 0", [&](Scenario& flawed) {
            flawed.state = [inner = trial.scenario](Index boundary, Side side) {
                EndState state = inner.state(boundary, side);
                if (side == Side::sender) {
                    state.learned = first_codebooks(inner.settings(boundary, side));
                    state.learned.front() = 1.0F;
                }
                return state;
            };
            flawed.ends_at_start = true;
        });
        refused_start(trial, "another codebook than the other side", [&](Scenario& flawed) {
            flawed.state = [inner = trial.scenario](Index boundary, Side side) {
                EndState state = inner.state(boundary, side);
                const Settings settings = inner.settings(boundary, side);
                if (state.codebooks.empty())
                    state.codebooks = first_codebooks(settings);
                if (side == Side::receiver)
                    state.codebooks.back() += 1.0F;
                return state;
            };
        });
    }
    const auto negated = [&](const std::string& what, Floats EndState::*part) {
        refused_start(trial, what + " than the other side", [&](Scenario& flawed) {
            flawed.state = [inner = trial.scenario, part](Index boundary, Side side) {
                EndState state = inner.state(boundary, side);
                if (inner.run.anchors != Anchors::none && state.rows.empty())
                    state.rows = anchor_rows(inner.settings(boundary, side), side);
                if (side == Side::receiver)
                    for (float& value : state.*part)
                        value = -value;
                return state;
            };
        });
    };
    for (const auto& [field, count] :
         {std::pair("the step", &EndState::steps), std::pair("the micro-batch", &EndState::micro_batches)})
        if (trial.candidate.names_differences()) // others may not count
            refused_start(trial, "another number of " + std::string(field) + " than the other side",
                          changed([counted = count](Side side, EndState& state) {
                              state.*counted += side == Side::receiver ? 1 : 0;
                          }),
                          field);
    negated("another subspace", &EndState::a);
    if (trial.run.anchors == Anchors::fixed || trial.run.anchors == Anchors::shared)
        negated("another P", &EndState::rows);
    other_shapes(trial);
    other_tokens(trial);
}
Case one_boundary(Case run) {
    run.workers = 2;
    run.micro = std::max<Index>(run.micro, 1);
    run.restart = 0;
    if (run.codewords == 1) // a single codeword is 0
        run.codewords = 2;
    return run;
}

} // namespace

std::vector<gate::Property> input_properties() {
    return {property(16, "refusals", "Bad input is refused, and nothing has been sent or changed by it.",
                     refusals, {"several boundaries", "too large a payload", "too large a codeword"},
                     something_to_refuse),
            property(16, "overflow",
                     "A step whose gradient of A is not finite changes neither A nor m, on either side.",
                     overflow,
                     {"several boundaries", "anchors", "payload of 16 bits", {"several replicas", 15}},
                     overflows_in_the_middle, Replicas::any),
            property(16, "starts",
                     "Settings and shapes that cannot be, or that differ, are refused on both sides.",
                     refused_starts, {"anchors", "codewords"}, one_boundary)};
}

} // namespace truestep::properties::mapl
