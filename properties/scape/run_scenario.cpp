// Runs a scenario on an implementation that is made rank by rank.
#include <truestep/properties/scape/implementations.hpp>

#include <algorithm>
#include <bit>
#include <exception>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gate/record.hpp>
#include <truestep/properties/scape/case.hpp>

#include "live.hpp"
#include "rank_record.hpp"
#include "restore_damaged.hpp"

namespace truestep::properties::scape {

namespace {

namespace fs = std::filesystem;
using distributed::Communicator;
using distributed::CountingCommunicator;

/// The actions between two restarts.
struct Stage {
    Setup setup;
    std::size_t first = 0; ///< its actions are first..last-1
    std::size_t last = 0;
};

std::vector<Stage> stages(const Scenario& scenario) {
    std::vector<Stage> all{{scenario.setup, 0, 0}};
    for (std::size_t i = 0; i < scenario.actions.size(); ++i) {
        const Action& action = scenario.actions[i];
        if (action.kind == Action::Kind::restart) {
            Stage next{scenario.setup, i, i};
            next.setup.problem = action.problem.value();
            next.setup.ranges = action.ranges;
            next.setup.begun.reset();
            // Starts from zeros, so that restoring has to replace them.
            next.setup.parameters.assign(scenario.setup.parameters.size(), 0.0F);
            all.push_back(std::move(next));
        }
        all.back().last = i + 1;
    }
    return all;
}

bool saves(const Action& action) {
    return action.kind == Action::Kind::restart || action.kind == Action::Kind::undo;
}

void expect_size(const char* what, std::size_t is, std::size_t should) {
    if (is != should)
        throw std::runtime_error(std::string(what) + " has " + std::to_string(is) +
                                 " elements; it must be shown in full length, " + std::to_string(should));
}

std::vector<std::uint8_t> full_length(std::vector<std::uint8_t> mask, const Setup& setup) {
    expect_size("a mask", mask.size(), (setup.parameters.size() + 7) / 8);
    return mask;
}

ObservedState full_length(ObservedState view, const Setup& setup) {
    const std::size_t d = setup.parameters.size();
    expect_size("view().parameters", view.parameters.size(), d);
    expect_size("view().moment", view.moment.size(), d);
    expect_size("view().residual", view.residual.size(), d);
    view.mask = full_length(std::move(view.mask), setup);
    return view;
}

/// The parts of a rank's gradient in a step.
std::vector<std::vector<float>> parts_of(const Action& action, std::size_t rank) {
    const std::vector<float>& whole = action.gradients[rank];
    if (action.parts.empty())
        return {whole};
    std::vector<std::vector<float>> parts;
    for (const Gradients& part : action.parts)
        parts.push_back(part[rank]);
    for (std::size_t i = 0; i < whole.size(); ++i) {
        float sum = parts.front()[i];
        for (std::size_t part = 1; part < parts.size(); ++part)
            sum += parts[part][i];
        if (std::bit_cast<std::uint32_t>(sum) == std::bit_cast<std::uint32_t>(whole[i]))
            continue;
        for (auto& part : parts)
            part[i] = missing_part;
        parts[i % parts.size()][i] = whole[i];
    }
    while (parts.size() > 1 && is_missing(parts.back()))
        parts.pop_back();
    return parts;
}

/// Gives a rank its gradient. Values that are not there yet, and parts already taken, are NaN.
void give(RankUnderTest& candidate, const Action& action, const problem::Layout& layout, int rank) {
    const bool wrong = action.miscut && (action.miscut->rank < 0 || action.miscut->rank == rank);
    const auto& buckets = wrong ? action.miscut->buckets : action.buckets;
    constexpr float nothing = std::numeric_limits<float>::quiet_NaN();
    auto parts = parts_of(action, static_cast<std::size_t>(rank));
    for (std::size_t part = 0; part + 1 < parts.size(); ++part) {
        candidate.accumulate(parts[part]);
        std::ranges::fill(parts[part], nothing);
    }
    const std::vector<float>& last = parts.back();
    if (buckets.empty())
        return candidate.step(last, action.rate_of(rank));
    std::vector<float> come(last.size(), nothing);
    for (const auto& tensors : buckets) {
        for (const std::size_t tensor : tensors)
            if (tensor < layout.tensors().size())
                std::copy(last.begin() + layout.begin(tensor), last.begin() + layout.end(tensor),
                          come.begin() + layout.begin(tensor));
        candidate.bucket(tensors, come);
    }
    // With invalid buckets the NaN outside of them would be refused, so the whole gradient is given.
    candidate.step(action.miscut ? last : come, action.rate_of(rank));
}

Outcome take_step(RankUnderTest& candidate, const Action& action, const problem::Layout& layout, int rank) {
    Outcome outcome;
    try {
        give(candidate, action, layout, rank);
    } catch (const distributed::scape::RefusedStep& refused) {
        outcome.kind = Outcome::Kind::refused;
        outcome.text = refused.what();
        outcome.rank = refused.rank;
        outcome.index = refused.index;
        outcome.value = refused.value;
    } catch (const distributed::scape::Halted& halted) {
        outcome.kind = Outcome::Kind::halted;
        outcome.text = halted.what();
    } catch (const distributed::Aborted&) {
        throw; // because of another rank; this one has refused nothing
    } catch (const std::exception& error) {
        if (!action.miscut)
            throw;
        outcome.kind = Outcome::Kind::refused;
        outcome.text = error.what();
        outcome.rank = -1; // the fault is not in a gradient
    }
    return outcome;
}

class RankedImplementation final : public Implementation {
  public:
    RankedImplementation(ImplementationSpec ranked, std::shared_ptr<const Group> group)
        : ranked_(std::move(ranked)), group_(std::move(group)) {}

    std::string name() const override { return ranked_.name; }
    std::string communicator() const override { return group_->name(); }
    verify::LevelKind level() const override { return ranked_.level; }
    problem::Algorithm algorithm() const override { return ranked_.algorithm; }
    std::vector<std::string> variants() const override { return ranked_.variants; }
    bool takes(int workers) const override {
        return group_->takes(workers) && workers <= ranked_.most_workers;
    }
    std::string unavailable() const override { return ranked_.unavailable; }
    std::string runs_on() const override { return ranked_.runs_on; }
    gate::Unsupported unsupported() const override {
        gate::Unsupported all = ranked_.unsupported;
        if (!ranked_.takes_parts)
            all.insert({"parts", "it takes its gradients at once"});
        if (!ranked_.rounds_payloads)
            all.insert({"payload", "it takes payloads of fp32 alone"});
        else if (!ranked_.takes_states)
            all.insert({"payload.overflow", "it cannot begin at a state"});
        if (!ranked_.takes_states)
            all.insert({"starts.states", "it cannot begin at a state"});
        if (!ranked_.adds_groups)
            all.insert({"groups", "its ranks add on one level"});
        return all;
    }
    std::string like() const override { return ranked_.like; }
    Index most_parameters() const override { return ranked_.most_parameters; }
    bool takes_parts() const override { return ranked_.takes_parts; }
    bool compares_starts() const override { return ranked_.compares_starts; }
    bool names_differences() const override { return ranked_.names_differences; }
    bool any(bool here) const override { return group_->any(here); }

    RunRecording run(const Scenario& scenario) const override {
        RunRecording history;
        try {
            const auto all = stages(scenario);
            if (ranked_.shares_folders && std::ranges::any_of(scenario.actions, &saves))
                make_littered(shared_folder());
            for (std::size_t number = 0; number < all.size(); ++number)
                run_stage(scenario, all, number, history);
        } catch (const std::exception& error) {
            history.error = error.what();
        }
        return history;
    }

    void train(const Setup& setup, GradientSource& live) const override {
        fs::path folder;
        if (!unsupported().contains("restart"))
            make_empty(folder = of_action(0));
        group_->run(setup.problem.workers,
                    [&](Communicator& ranks) { train_rank(ranked_, setup, live, folder, ranks); });
    }

  private:
    void run_stage(const Scenario& scenario, const std::vector<Stage>& all, std::size_t number,
                   RunRecording& history) const {
        const Stage& stage = all[number];
        const bool goes_on = number + 1 < all.size();
        const int workers = stage.setup.problem.workers;
        std::vector<RankRecord> records(static_cast<std::size_t>(workers));
        // A run without checkpoints makes no folder.
        const fs::path from = number > 0 ? folder(number) : fs::path();
        const fs::path to = goes_on ? folder(number + 1) : fs::path();
        if (goes_on && !ranked_.shares_folders)
            make_empty(to);
        for (std::size_t i = stage.first; i < stage.last; ++i)
            if (scenario.actions[i].kind == Action::Kind::damage ||
                (scenario.actions[i].kind == Action::Kind::undo && !ranked_.shares_folders))
                make_empty(of_action(i));
        std::exception_ptr failure;
        try {
            group_->run(workers, [&](Communicator& ranks) {
                RankRecord& record = records[static_cast<std::size_t>(ranks.rank())];
                try {
                    run_rank(scenario, stage, ranks, from, to, record);
                } catch (const std::exception& error) {
                    record.ended = error.what();
                    throw;
                }
            });
        } catch (...) {
            failure = std::current_exception();
        }
        collect(records, history);
        if (failure)
            std::rethrow_exception(failure);
    }

    /// One rank does it, and if it fails, all ranks throw.
    void make_empty(const fs::path& folder) const {
        std::error_code error;
        if (group_->speaks()) {
            fs::remove_all(folder, error);
            if (!error)
                fs::create_directories(folder, error);
        }
        if (const std::string fault = group_->told(error ? error.message() : ""); !fault.empty())
            throw std::runtime_error(folder.string() + " cannot be made: " + fault);
    }

    /// Leftovers of runs and people: half a checkpoint, one without a manifest, names like a later step's.
    void make_littered(const fs::path& folder) const {
        make_empty(folder);
        if (!group_->speaks())
            return;
        for (const char* name : {"step-0000000001.partial", "step-0000000003", "step-9999999999", "step-9",
                                 "step-0000000009.old", "step--000000001"})
            fs::create_directory(folder / name);
        for (const char* name :
             {"step-0000000001.partial/rank-0000.safetensors",
              "step-0000000001.partial/rank-0077.safetensors", "step-0000000003/rank-0000.safetensors",
              "step-9/manifest.json", "step-0000000009.old/manifest.json", "step-0000000008", "notes.txt"})
            std::ofstream(folder / name) << "left over";
    }

    [[nodiscard]] fs::path shared_folder() const {
        return fs::path(scratch_folder(*group_)) / "checkpoints";
    }

    [[nodiscard]] fs::path folder(std::size_t number) const {
        return ranked_.shares_folders
                   ? shared_folder()
                   : fs::path(scratch_folder(*group_)) / ("stage" + std::to_string(number));
    }

    [[nodiscard]] fs::path of_action(std::size_t action) const {
        return fs::path(scratch_folder(*group_)) / ("action" + std::to_string(action));
    }
    [[nodiscard]] fs::path undo_folder(std::size_t action) const {
        return ranked_.shares_folders ? shared_folder() : of_action(action);
    }

    void run_rank(const Scenario& scenario, const Stage& stage, Communicator& ranks, const fs::path& from,
                  const fs::path& to, RankRecord& record) const {
        const Setup& given =
            scenario.odd && scenario.odd->rank == ranks.rank() ? scenario.odd->setup : stage.setup;
        const auto place = ranked_.place ? ranked_.place(given, ranks) : nullptr;
        CountingCommunicator communicator(place ? place->communicator() : ranks);
        communicator.note_faults_in(record.fault_came);
        const auto candidate = place ? place->make(given, communicator) : ranked_.make(given, communicator);
        if (given.begun)
            candidate->begin_at(*given.begun);
        for (std::size_t i = stage.first; i < stage.last; ++i) {
            const Action& action = scenario.actions[i];
            communicator.reset();
            if (action.fault && action.fault->rank == ranks.rank()) {
                if (action.fault->leaves) {
                    record.fault_came = true;
                    record.ended = "it left";
                    return;
                }
                if (action.fault->damage)
                    communicator.damage(distributed::Traffic::mask, *action.fault->damage);
                else
                    communicator.lose_link_after(action.fault->exchanges);
            }
            Outcome outcome;
            switch (action.kind) {
            case Action::Kind::step:
                outcome = take_step(*candidate, action, stage.setup.problem.layout, ranks.rank());
                break;
            case Action::Kind::restart:
                candidate->restore(from);
                break;
            case Action::Kind::disturb:
                communicator.disturb(action.disturbance);
                break;
            case Action::Kind::undo:
                // Over a live object, with the mask of the undone step in flight and the next one begun.
                candidate->save(undo_folder(i));
                outcome = take_step(*candidate, action, stage.setup.problem.layout, ranks.rank());
                if (outcome.kind == Outcome::Kind::taken && !action.parts.empty())
                    candidate->accumulate(action.parts.front()[static_cast<std::size_t>(ranks.rank())]);
                candidate->restore(undo_folder(i));
                break;
            case Action::Kind::damage:
                // A step in between makes the live state differ from the saved one.
                candidate->save(of_action(i));
                outcome = take_step(*candidate, action, stage.setup.problem.layout, ranks.rank());
                if (outcome.kind != Outcome::Kind::taken)
                    throw std::runtime_error("a step after a save was not taken: " + outcome.text);
                outcome = restored_from_damaged(*candidate, of_action(i), action.damage, ranks);
                break;
            }
            outcome.sent = communicator.bytes();
            outcome.exchanges = communicator.exchanges();
            record.outcomes.push_back(std::move(outcome));
            record.views.push_back(full_length(candidate->view(), stage.setup));
        }
        const bool halted = !record.outcomes.empty() &&
                            record.outcomes.back().kind == Outcome::Kind::halted &&
                            scenario.actions[stage.last - 1].kind == Action::Kind::step;
        if (!to.empty())
            candidate->save(to);
        else if (!halted)
            record.coming = full_length(candidate->coming(), stage.setup);
    }

    void collect(const std::vector<RankRecord>& records, RunRecording& history) const {
        const std::vector<RankRecord> all = gate::exchange_records(*group_, records);
        std::size_t actions = 0;
        for (const RankRecord& record : all)
            actions = std::max(actions, record.views.size());
        for (std::size_t i = 0; i < actions; ++i) {
            ActionRecording snapshot;
            for (const RankRecord& record : all)
                if (i < record.views.size()) {
                    snapshot.views.push_back(record.views[i]);
                    snapshot.outcomes.push_back(record.outcomes[i]);
                }
            history.after.push_back(std::move(snapshot));
        }
        history.coming.clear();
        history.ended.clear();
        for (const RankRecord& record : all) {
            history.coming.push_back(record.coming);
            history.ended.push_back(record.ended);
            history.fault_came = history.fault_came || record.fault_came;
        }
    }

    ImplementationSpec ranked_;
    std::shared_ptr<const Group> group_;
};

} // namespace

std::shared_ptr<const Implementation> on_ranks(ImplementationSpec ranked,
                                               std::shared_ptr<const Group> group) {
    return std::make_shared<RankedImplementation>(std::move(ranked), std::move(group));
}

} // namespace truestep::properties::scape
