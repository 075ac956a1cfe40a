// Property 14 of section 8: ranks that were given different or impossible things do not begin.
#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// A way to give one rank something else, as another case. `shows`: whether that makes another problem at
/// all.
struct Way {
    std::string what; ///< the field's name in an error, and in what implementations lack
    std::function<void(Case&)> change;
    std::function<bool(const Case&)> shows;
};

bool always(const Case&) {
    return true;
}

void other_partition(Case& run) {
    using problem::PartitionRule;
    run.partition =
        run.partition == PartitionRule::by_shard ? PartitionRule::by_tensor : PartitionRule::by_shard;
}

/// The first tensor that is not empty.
problem::Tensor& first_of(Case& run) {
    return *std::ranges::find_if(run.tensors, [](const auto& tensor) { return tensor.size > 0; });
}

void cut_in_two(Case& run) {
    auto& first = first_of(run);
    const auto rest = first.size / 2;
    first.size -= rest;
    run.tensors.insert(run.tensors.begin() + (&first - run.tensors.data()) + 1, {"cut", rest, false});
}

/// Those that dense AdamS has, too, come first.
const std::vector<Way>& ways() {
    using problem::BiasCorrection;
    using problem::NormVersion;
    using problem::Payload;
    static const std::vector<Way> all{
        {"beta2", [](Case& run) { run.beta2 = run.beta2 == 0.75 ? 0.5 : 0.75; }, always},
        {"beta1", [](Case& run) { run.beta1 = run.beta1 == 0.5 ? 0.25 : 0.5; }, always},
        {"epsilon", [](Case& run) { run.epsilon *= 2; }, always},
        {"weight_decay", [](Case& run) { run.weight_decay += 0.125; }, always},
        {"bias_correction",
         [](Case& run) {
             run.bias_correction = run.bias_correction == BiasCorrection::adam ? BiasCorrection::momentum
                                                                               : BiasCorrection::adam;
         },
         always},
        {"tensors", cut_in_two, [](const Case& run) { return run.size() > 1; }},
        {"partition", other_partition,
         [](const Case& run) {
             Case other = run;
             other_partition(other);
             return problem_of(run).segments != problem_of(other).segments;
         }},
        {"clip_norm", [](Case& run) { run.clip_norm = run.clip_norm > 0.0 ? 0.0 : 1.0; }, always},
        {"norm",
         [](Case& run) {
             run.norm = run.norm == NormVersion::tree ? NormVersion::ascending : NormVersion::tree;
         },
         [](const Case& run) { return run.clip_norm > 0.0; }},
        {"payload",
         [](Case& run) { run.payload = run.payload == Payload::fp32 ? Payload::bf16 : Payload::fp32; },
         always},
        {"groups",
         [](Case& run) {
             run.groups = run.groups.empty() ? problem::Groups{run.workers - 1, 1} : problem::Groups{};
         },
         [](const Case& run) {
             return run.groups.empty() ? run.workers > 2 : problem::has_levels(groups_of(run));
         }},
        {"density",
         [](Case& run) {
             run.density = run.density == 0.25 ? 0.75 : 0.25;
             run.start = run.density;
             run.schedule = DensityRule::geometric;
             run.warm_up = 0;
         },
         always},
        {"tensors", [](Case& run) { first_of(run).always_dense = !first_of(run).always_dense; }, always},
    };
    return all;
}

constexpr std::size_t of_adams = 7; ///< how many of `ways()`, from the first on

/// All ranks must end with an error before they have done anything. Where the implementation says what
/// differs, the error names `field`.
void expect_none_begins(Trial& trial, Scenario scenario, const std::string& why, const std::string& field) {
    const std::size_t ranks = scenario.setup.ranges.size();
    const RunRecording& ran = trial.failing(std::move(scenario));
    trial.expect(ran.after.empty(), why + ", and a step is taken");
    trial.expect(ran.ended.size() == ranks, why + ", and the run ended otherwise: " + ran.error);
    for (std::size_t rank = 0; rank < ranks; ++rank)
        trial.expect(!ran.ended[rank].empty(),
                     why + ", and rank " + std::to_string(rank) + " has nothing to say against it");
    for (std::size_t rank = 0; trial.implementation().names_differences() && rank < ranks; ++rank)
        trial.expect(ran.ended[rank].find(field) != std::string::npos,
                     why + ", and the error of rank " + std::to_string(rank) + " does not name '" + field +
                         "': " + ran.ended[rank]);
}

std::size_t odd_one(const Case& run) {
    return static_cast<std::size_t>(run.chosen_rank % run.workers);
}

std::string name_of_rank(std::size_t rank) {
    return "rank " + std::to_string(rank);
}

/// The smallest possible change.
float next_to(float value) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) ^ 1U);
}

float no_finite_number(std::uint64_t drawn) {
    using Limits = std::numeric_limits<float>;
    const std::vector<float> all{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
    return all[drawn % all.size()];
}

Setup with(Setup setup, std::size_t place, const std::function<float(float)>& change) {
    setup.parameters[place] = change(setup.parameters[place]);
    return setup;
}

void none_begins(Trial& trial) {
    const Case& run = trial.run();
    const std::size_t odd = odd_one(run);
    const std::string who = name_of_rank(odd) + " is given ";
    const auto place = static_cast<std::size_t>(run.chosen_place % run.size());
    Scenario scenario = trial.steps(run, 1);

    const Setup& good = scenario.setup;
    const float wrong = no_finite_number(run.seed);
    const Setup not_finite = with(good, place, [&](float) { return wrong; });
    // One time in three each: all parameters are not finite, a parameter differs, a setting differs.
    const auto kind = run.chosen_place / 3 % 3;
    if (kind == 0 || run.workers == 1) {
        trial.classify(true, "parameters that are not finite");
        scenario.setup = not_finite;
        return expect_none_begins(trial, std::move(scenario),
                                  "all ranks are given a parameter that is not finite", "parameter");
    }
    if (kind == 1) {
        const bool finite = run.chosen_place / 9 % 4 > 0;
        trial.classify(finite, "parameters that differ in a bit");
        scenario.odd = {static_cast<int>(odd), finite ? with(good, place, next_to) : not_finite};
        return expect_none_begins(trial, std::move(scenario), who + "another parameter", "parameters");
    }
    const bool adams = trial.implementation().algorithm() == problem::Algorithm::adams;
    const auto drawn = static_cast<std::size_t>(run.chosen_place / 9) % (adams ? of_adams : ways().size());
    const bool shows =
        ways()[drawn].shows(run) && !trial.implementation().unsupported().contains(ways()[drawn].what);
    const Way& way = shows ? ways()[drawn] : ways().front();
    trial.classify(true, "settings that differ");
    Case other = run;
    way.change(other);
    Setup setup = trial.steps(other, 0).setup;
    setup.parameters = good.parameters;
    scenario.odd = {static_cast<int>(odd), std::move(setup)};
    expect_none_begins(trial, std::move(scenario), who + "another setting: " + way.what, way.what);
}

/// The state after a step from zeros, with all coordinates in the coming mask.
InitialState a_state(const Case& run) {
    InitialState begun;
    begun.step = 1;
    begun.residual.assign(static_cast<std::size_t>(run.workers),
                          std::vector<float>(static_cast<std::size_t>(run.size()), 0.0F));
    begun.mask.assign(static_cast<std::size_t>((run.size() + 7) / 8), 0);
    for (Index index = 0; index < run.size(); ++index)
        begun.mask[static_cast<std::size_t>(index / 8)] |=
            static_cast<std::uint8_t>(1U << static_cast<unsigned>(index % 8));
    return begun;
}

void none_goes_on(Trial& trial) {
    const Case& run = trial.run();
    const auto place = static_cast<std::size_t>(run.chosen_place % run.size());
    Scenario scenario = trial.steps(run, 1);
    scenario.setup.begun = a_state(run);
    Setup other = scenario.setup;
    std::string what;
    switch (run.chosen_place / 3 % 3) {
    case 0:
        what = "the state of another step";
        ++other.begun->step;
        break;
    case 1:
        what = "another mask";
        other.begun->mask[place / 8] ^= static_cast<std::uint8_t>(1U << (place % 8));
        break;
    default:
        what = "no state";
        other.begun.reset();
        break;
    }
    trial.classify(other.begun.has_value(), "states that differ");
    trial.classify(!other.begun.has_value(), "a rank without the state");
    const std::size_t odd = odd_one(run);
    scenario.odd = {static_cast<int>(odd), std::move(other)};
    expect_none_begins(trial, std::move(scenario),
                       name_of_rank(odd) + " goes on from " + what + ", the others do not", "state");
}

std::string cannot_differ(const Implementation& implementation) {
    if (!implementation.compares_starts() && !implementation.unsupported().contains("starts"))
        return "it does not say that its ranks compare what each was given";
    return implementation.communicator() == "mpi" ? "its ranks are processes, which a failure ends" : "";
}

} // namespace

std::vector<Property> start_properties() {
    return {{14, "starts",
             "Ranks that were given different settings or parameters, or such as are not finite, do not "
             "begin, and each says so.",
             any_case, none_begins,
             usual_demands({"settings that differ", "parameters that differ in a bit",
                            "parameters that are not finite"}),
             cannot_differ},
            {14, "starts.states", "Ranks that go on from different states take no step, and each says so.",
             any_case, none_goes_on, usual_demands({"states that differ", "a rank without the state"}),
             cannot_differ, [](Case& run) {
                 run.workers = std::max(run.workers, 2);
                 run.payload = problem::Payload::fp32;
             }}};
}

} // namespace truestep::properties::scape
