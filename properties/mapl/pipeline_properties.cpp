// Properties of the ranks of a pipeline: what they have in common, and what they send.
#include <algorithm>
#include <map>
#include <utility>

#include "family.hpp"
#include "network.hpp"

namespace truestep::properties::mapl {

Case no_restart(Case run) {
    run.restart = 0;
    return run;
}

namespace {

void same_on_both_sides(Trial& trial) {
    const bool one_table = trial.run.anchors == Anchors::fixed || trial.run.anchors == Anchors::shared;
    for (Index boundary = 0; boundary < trial.scenario.boundaries(); ++boundary) {
        const RankRecording& sender = trial.seen[static_cast<std::size_t>(boundary)];
        const RankRecording& receiver = trial.seen[static_cast<std::size_t>(boundary) + 1];
        for (Index step = 0; step <= trial.run.steps; ++step) {
            trial.same(sender.at(key(step, "s.A")), receiver.at(key(step, "r.A")), step,
                       boundary_text(boundary, "before " + key(step, "the receiver's A")), "the sender's");
            if (trial.run.codewords > 0)
                trial.same(sender.at(key(step, "s.C")), receiver.at(key(step, "r.C")), step,
                           boundary_text(boundary, "before " + key(step, "the receiver's codebooks")),
                           "the sender's mirror");
            if (one_table)
                trial.same(sender.at(key(step, "s.E")), receiver.at(key(step, "r.E")), step,
                           boundary_text(boundary, "before " + key(step, "the receiver's E")),
                           "the sender's");
        }
    }
}

// 9. Both sides of a boundary have the same bits whenever they use them.
void both_sides(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    trial.each_replica(same_on_both_sides);
}

/// A stage that puts the tokens of all micro-batches into one.
class Joined final : public Stage {
  public:
    Joined(const Case& run, int stage) : run_(run), inner_(made_up_stage(run, stage)) {}
    Floats forward(Index step, Index, const Floats& arrived) override {
        return joined([&](Index micro) { return inner_->forward(step, micro, arrived); });
    }
    Floats backward(Index step, Index, const Floats& gradient) override {
        return joined([&](Index micro) { return inner_->backward(step, micro, gradient); });
    }

  private:
    template <class Part>
    Floats joined(const Part& part) const {
        Floats all;
        for (Index micro = 0; micro < run_.micro * run_.replicas; ++micro) {
            const Floats one = part(micro);
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    }

    Case run_;
    std::unique_ptr<Stage> inner_;
};

/// The sum of what all replicas of a stage recorded under this name.
Floats over_replicas(const Trial& trial, std::size_t stage, const std::string& what) {
    Floats sum = trial.seen[stage].at(what);
    for (std::size_t rank = stage + static_cast<std::size_t>(trial.run.workers); rank < trial.seen.size();
         rank += static_cast<std::size_t>(trial.run.workers))
        for (std::size_t i = 0; i < sum.size(); ++i)
            sum[i] += trial.seen[rank].at(what).at(i);
    return sum;
}

// 10. Splitting a batch into micro-batches, and over replicas, changes no sum.
void splitting(Trial& trial) {
    const Case run = trial.run;
    trial.seen = trial.play(trial.scenario);
    Scenario whole = trial.scenario;
    const Index parts = run.micro * run.replicas;
    whole.run.micro = whole.run.replicas = 1;
    whole.run.trainer = Trainer::none;
    whole.run.tokens = run.tokens * parts;
    whole.ids = [parts, inner = trial.scenario.ids](Index step, Index) {
        std::vector<Id> all;
        for (Index micro = 0; micro < parts; ++micro) {
            const std::vector<Id> one = inner(step, micro);
            all.insert(all.end(), one.begin(), one.end());
        }
        return all;
    };
    whole.stage = [run](int stage) { return std::make_unique<Joined>(run, stage); };
    const std::vector<RankRecording> seen = trial.play(whole);
    for (std::size_t rank = 0; rank < seen.size(); ++rank)
        for (const char* what : {"s.gA", "s.dE", "r.dE"})
            if (const auto found = seen[rank].values.find(key(0, what)); found != seen[rank].values.end())
                trial.same(found->second, over_replicas(trial, rank, key(0, what)), 0,
                           "on rank " + std::to_string(rank) + ", " + key(0, what),
                           "that of one micro-batch with all tokens");
}
Case exact_step(Case run) {
    const Payload payload = run.payload;
    run = nothing_lost(run); // codebooks learn micro-batch by micro-batch
    run.payload = payload;
    run.data = DataClass::dyadic;
    run.steps = 1;
    run.restart = 0;
    return run;
}

// 11. With full rank, a pipeline equals the network without one.
void whole_pipeline(Trial& trial) {
    const Case run = trial.run;
    trial.scenario.stage = [run](int stage) { return network_stage(run, stage); };
    trial.scenario.state = [run, inner = trial.scenario.state](Index boundary, Side side) {
        EndState state = inner(boundary, side);
        for (Index i = 0; i < run.width; ++i)
            for (Index j = 0; j < run.width; ++j)
                state.a[static_cast<std::size_t>(i * run.width + j)] =
                    (i + boundary + 1) % run.width == j ? (i % 2 == 0 ? 1.0F : -1.0F) : 0.0F;
        return state;
    };
    trial.seen = trial.play(trial.scenario);
    // The same stages, one after the other, with nothing between them.
    const auto stages = static_cast<std::size_t>(run.workers);
    std::vector<std::unique_ptr<Stage>> network;
    std::vector<std::map<Index, Floats>> sent(stages);
    for (std::size_t stage = 0; stage < stages; ++stage)
        network.push_back(network_stage(run, static_cast<int>(stage)));
    for (Index micro = 0; micro < run.micro; ++micro)
        for (std::size_t stage = 0; stage < stages; ++stage)
            sent[stage][micro] =
                network[stage]->forward(0, micro, stage == 0 ? Floats() : sent[stage - 1][micro]);
    for (Index micro = 0; micro < run.micro; ++micro) {
        Floats gradient;
        for (std::size_t stage = stages; stage-- > 0;) {
            gradient = network[stage]->backward(0, micro, gradient);
            if (stage > 0) {
                const RankRecording& receiver = trial.seen[stage];
                const std::string at = "on rank " + std::to_string(stage) + ", ";
                trial.same(sent[stage - 1][micro], receiver.at(key(0, micro, "Xhat")), 0,
                           at + key(0, micro, "Xhat"), "that of the network without boundaries");
                trial.same(gradient, receiver.at(key(0, micro, "G")), 0, at + key(0, micro, "G"),
                           "that of the network without boundaries");
            }
        }
    }
    for (std::size_t stage = 0; stage < stages; ++stage)
        trial.same(network[stage]->parameter_gradient(0), trial.seen[stage].at(key(0, "dW")), 0,
                   "on rank " + std::to_string(stage) + ", " + key(0, "dW"),
                   "that of the network without boundaries");
}
Case full_and_exact(Case run) {
    run = exact_step(run);
    run.width = run.rank;
    run.anchors = Anchors::none;
    run.payload = Payload::fp32;
    return run;
}

// 12. Every id arrives.
void every_id(Trial& trial) {
    const Case run = trial.run;
    trial.scenario.ids = [run](Index step, Index micro) {
        std::vector<Id> ids(static_cast<std::size_t>(run.tokens));
        for (std::size_t token = 0; token < ids.size(); ++token)
            ids[token] = static_cast<Id>(
                run.vocabulary - 1 -
                (static_cast<Index>(token) + (step * run.micro + micro) * run.tokens) % run.vocabulary);
        return ids;
    };
    trial.seen = trial.play(trial.scenario);
    for (std::size_t rank = 1; rank < trial.seen.size(); ++rank)
        for (Index step = 0; step < run.steps; ++step)
            for (Index micro = 0; micro < run.micro; ++micro) {
                const std::vector<Id> ids = trial.scenario.ids(step, micro);
                trial.same(halves_of(ids), trial.seen[rank].at(key(step, micro, "ids")), step,
                           "on rank " + std::to_string(rank) + ", " + key(step, micro, "ids"),
                           "those that were sent");
            }
}

/// Some have all ids of 32 bits.
Case of_many_ids(Case run) {
    if (run.seed % 4 == 2) {
        run.anchors = Anchors::none;
        run.vocabulary = greatest_vocabulary;
    }
    return run;
}

/// The bytes from one sender's replica to another for the mean that A follows: the piece that the other
/// adds up, and the mean of its own piece.
Index bytes_of_mean(const Case& run, Index from, Index to) {
    const Index values = run.width * run.rank;
    const Index each = (values + run.replicas - 1) / run.replicas;
    const auto piece = [&](Index replica) {
        return std::min(values, (replica + 1) * each) - std::min(values, replica * each);
    };
    return 4 * (piece(to) + piece(from));
}

void traffic_of_pipeline(Trial& trial) {
    const Case& run = trial.run;
    Index each = 1; // byte of an id
    for (Index ids = 256; ids < run.vocabulary; ids *= 256)
        ++each;
    const auto value = static_cast<Index>(value_bytes(run.payload));
    unsigned bits = 0; // of an index
    while ((Index{1} << bits) < run.codewords)
        ++bits;
    const auto quantized = [&](Index tokens) {
        return (tokens * run.groups * run.rounds * bits + 7) / 8 + tokens * each +
               (run.codewords == 0 ? 0 : run.codewords / run.subsets) * run.rounds * 4 * run.rank;
    };
    const Index table = run.anchors == Anchors::shared ? run.vocabulary * run.rank : 0;
    for (int rank = 0; rank < run.workers; ++rank) {
        std::map<std::string, Index> wanted;
        const bool sends = rank + 1 < run.workers;
        for (Index step = 0; step < run.steps; ++step) {
            for (Index micro = 0; micro < run.micro; ++micro) {
                const auto tokens = static_cast<Index>(trial.scenario.ids(step, micro).size());
                if (sends)
                    wanted[wire_key(key(step, micro, "forward"), rank + 1)] =
                        run.codewords > 0 ? quantized(tokens) : tokens * (value * run.rank + each);
                if (rank > 0)
                    wanted[wire_key(key(step, micro, "backward"), rank - 1)] = tokens * value * run.rank;
            }
            for (const int peer : {rank - 1, rank + 1})
                if (peer >= 0 && peer < run.workers)
                    wanted[wire_key(key(step, "end"), peer)] = 4 * (run.width * run.rank + table);
            for (int replica = 0; sends && replica < run.replicas; ++replica)
                if (replica != trial.replica)
                    wanted[wire_key(key(step, "mean"), replica)] =
                        bytes_of_mean(run, trial.replica, replica) +
                        (trial.candidate.names_differences() ? 8 : 0); // the rate, which they compare
        }
        const RankRecording& seen = trial.seen[static_cast<std::size_t>(rank)];
        std::map<std::string, Index> got;
        for (const auto& [when, bytes] : seen.wire)
            if (when.starts_with("step ") && !bytes.empty())
                got[when] = static_cast<Index>(bytes.size());
        std::erase_if(wanted, [](const auto& entry) { return entry.second == 0; });
        const auto told = [&](const std::string& when, Index bytes, Index right) {
            trial.expect(bytes == right, 0, [&] {
                return "rank " + std::to_string(rank) + ", " + when + ": " + std::to_string(bytes) +
                       " bytes; it is to be " + std::to_string(right);
            });
        };
        for (const auto& [when, bytes] : wanted)
            told(when, got.contains(when) ? got[when] : 0, bytes);
        for (const auto& [when, bytes] : got)
            if (!wanted.contains(when))
                told(when, bytes, 0);
    }
}

// 13. The traffic to the byte: between neighbours, and between replicas of a sender, only.
void traffic(Trial& trial) {
    trial.seen = trial.play(trial.scenario);
    trial.each_replica(traffic_of_pipeline);
}

// 15. A restart changes no bit, even if steps have different numbers of micro-batches.
void restart(Trial& trial) {
    trial.scenario.uneven_steps = trial.run.seed % 2 == 1;
    Scenario going_on = trial.scenario;
    going_on.run.restart = 0;
    const std::vector<RankRecording> seen = trial.play(going_on);
    trial.seen = trial.play(trial.scenario);
    trial.same(seen, trial.seen, "that of a run without a restart");
}
Case restarted(Case run) {
    run = of_unequal_batches(run);
    const bool uneven = run.seed % 2 == 1; // which shows once there have been both kinds of steps
    run.steps = std::max<Index>(run.steps, uneven ? 3 : 2);
    run.restart = uneven ? 1 + run.seed / 2 % 2 : run.restart;
    run.restart = std::clamp<Index>(run.restart, 1, run.steps - 1);
    return run;
}

// 15. A checkpoint of a run with another setting is refused on both sides.
void other_settings(Trial& trial) {
    Settings settings = trial.scenario.settings(0, Side::sender);
    const std::string name = change_a_setting(trial.run, settings);
    trial.scenario.flaw = Flaw::file_of_other_settings;
    const std::vector<RankRecording> seen = trial.play(trial.scenario);
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
        const auto found = seen[rank].refused.find("flaw");
        const bool loads = found != seen[rank].refused.end(); // others may have no files
        trial.expect(loads ? found->second.find(name) != std::string::npos &&
                                 found->second.find('\n') == std::string::npos
                           : !trial.candidate.names_differences(),
                     trial.run.restart, [&] {
                         return "rank " + std::to_string(rank) +
                                " does not refuse in one line the checkpoint of a run with another " +
                                name + (loads ? ": " + found->second : "");
                     });
    }
}

std::vector<gate::Line> all_ids(const gate::Implementation& /*of*/, const gate::Overrides& overrides) {
    if (!overrides.empty())
        return {};
    return {"rank=1,width=1,workers=2,tokens=131072,vocabulary=131072",
            "rank=2,width=3,workers=3,tokens=65537,vocabulary=65537,data=normal"};
}

} // namespace

std::vector<gate::Property> pipeline_properties() {
    std::vector<gate::Property> all{
        property(9, "replicas", "Both sides of a boundary have the same bits of what is common to them.",
                 both_sides, {"several steps", "anchors", "codewords"}, as_drawn, Replicas::any),
        property(10, "splitting", "How a batch is split into micro-batches and replicas changes no sum.",
                 splitting, {"several micro-batches"}, exact_step, Replicas::any),
        property(11, "pipeline", "A pipeline with full rank is the network without boundaries.",
                 whole_pipeline, {"several boundaries", "several micro-batches"}, full_and_exact),
        property(12, "ids", "Every id arrives as it was sent.", every_id, {"several micro-batches"},
                 of_many_ids),
        property(
            13, "traffic", "What travels goes to the neighbour it is for, to the byte.", traffic,
            {"anchors", "several boundaries", "payload of 16 bits", "codewords"},
            [](Case run) { return no_restart(of_unequal_batches(run)); }, Replicas::any),
        property(15, "restart", "A restart after any step changes no bit.", restart,
                 {"restart", "streamed"}, restarted, Replicas::any),
        property(15, "restart.settings", "A checkpoint of other settings is refused on both sides.",
                 other_settings, {"restart"}, restarted)};
    for (gate::Property& one : all)
        if (one.name == "ids")
            one.also = all_ids;
    return all;
}

} // namespace truestep::properties::mapl
