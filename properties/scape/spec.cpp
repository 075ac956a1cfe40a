// The settings of a case.
#include <algorithm>

#include <truestep/problem/error.hpp>
#include <truestep/problem/memory_limits.hpp>
#include <truestep/properties/scape/implementation.hpp>

#include "case_words.hpp"
#include "generators.hpp"
#include "spec.hpp"

namespace truestep::properties::scape {

namespace {

using gate::from_to;
using gate::number;
using gate::one_of;
using gate::word;
using problem::BiasCorrection;
using problem::DataClass;
using problem::NormVersion;
using problem::PartitionRule;
using problem::Payload;
using problem::Tensor;
using Strings = std::vector<std::string>;

/// Small sizes, and sizes around the edges of words and blocks.
rc::Gen<Index> tensor_size() {
    return one_of<Index>(
        {1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 257, 1030});
}

rc::Gen<std::vector<Tensor>> tensors() {
    const auto tensor = rc::gen::build<Tensor>(
        rc::gen::set(&Tensor::size, tensor_size()),
        rc::gen::set(&Tensor::always_dense, rc::Gen<bool>(one_of<bool>({false, false, false, true}))));
    return rc::gen::map(rc::gen::mapcat(rc::Gen<std::size_t>(one_of<std::size_t>({1, 2, 3, 4, 1, 2, 3, 9})),
                                        [tensor](std::size_t count) {
                                            return rc::gen::container<std::vector<Tensor>>(count, tensor);
                                        }),
                        [](std::vector<Tensor> result) {
                            for (std::size_t place = 0; place < result.size(); ++place)
                                result[place].name = std::string(1, static_cast<char>('a' + place));
                            // A model has at least one parameter.
                            result.front().size = std::max<Index>(result.front().size, 1);
                            return result;
                        });
}

/// Whoever rounds a mean must also keep the loss, so segments are not owned in turn.
void with_owners_of_means(Case& run) {
    run.owners_in_turn = run.owners_in_turn && !problem::rounds_mean(run.payload);
}

/// Without b2*q^2 a coordinate that cancels has only epsilon in its denominator, and the smallest epsilons
/// would certainly halt the run.
void without_certain_halts(Case& run) {
    run.epsilon = run.beta2 == 0.0 ? std::max(run.epsilon, 1e-8) : run.epsilon;
}

/// A setting with its own functions for writing and parsing.
template <class Value, class Write, class Parse>
gate::Setting<Case> written(const std::string& key, Value Case::*member, Write write, Parse parse) {
    return {.key = key,
            .write = [=](const Case& run) { return write(run.*member); },
            .read = [=](Case& run, const std::string&,
                        const std::string& value) { run.*member = parse(value); }};
}

std::vector<gate::Setting<Case>> settings() {
    return {
        written("tensors", &Case::tensors, tensors_text, parse_tensors)
            .draws(tensors(), &Case::tensors)
            .asked("this model: name:size or name:size:dense, with commas between",
                   {"k is 1 of several", "k is all but one", "rho*n ends in one half",
                    "a tensor larger than a bucket", "an always-dense tensor", "several buckets",
                    "buckets change", "fewer parameters than ranks", "density below 1",
                    "something off the mask", "the mask changes", "late coordinates",
                    "residuals that are not zero"})
            .one_text(),
        number("workers", &Case::workers)
            .draws(one_of(worker_counts), &Case::workers)
            .asked("numbers of ranks",
                   {"several ranks", "a mean that is rounded", "a mean that rounding changes",
                    "no power of two", "fewer", "more", "another order", "a restart with other ranks",
                    "fewer parameters than ranks", "more than 8 ranks", "several buckets", "buckets change",
                    "several groups", "groups of different sizes", "settings that differ",
                    "parameters that differ in a bit", "a rank gives other buckets"})
            .in_rows({"1", "2", "3", "4", "5", "7", "8"}),
        written("groups", &Case::groups, groups_text, parse_groups)
            .draws(one_of<problem::Groups>({{}, {}, {}, {2}, {3}, {3, 2, 1}, {1, 5}, {1}, {4}, {64}}),
                   &Case::groups),
        word("partition", &Case::partition, problem::parse<PartitionRule>)
            .draws(one_of<PartitionRule>({PartitionRule::by_shard, PartitionRule::by_tensor}),
                   &Case::partition)
            .asked("what ranks own")
            .in_rows({"by_shard", "by_tensor"}),
        word("owners", &Case::owners_in_turn, Strings{"range", "turn"})
            .draws(one_of<bool>({false, false, true}), &Case::owners_in_turn),
        number("density", &Case::density)
            .draws(one_of<double>({1.0, 0.5, 0.1, 0.01, 0.001, 0.99, 0.3}), &Case::density)
            .asked("shares that are synchronized",
                   {"the density falls", "k is 1 of several", "k is all but one", "rho*n ends in one half",
                    "a restart while the density changes", "the density rises", "density below 1",
                    "something off the mask", "the mask changes", "late coordinates",
                    "residuals that are not zero"})
            .in_rows({"1", "0.1", "0.01"}),
        word("schedule", &Case::schedule, Strings{"geometric", "linear", "jumps"})
            .draws(one_of<DensityRule>({DensityRule::geometric, DensityRule::linear, DensityRule::jumps}),
                   &Case::schedule),
        number("start", &Case::start).draws(one_of<double>({1.0, 1.0, 0.02}), &Case::start),
        number("warm_up", &Case::warm_up).draws(one_of<Index>({0, 1, 2, 3}), &Case::warm_up),
        word("rate", &Case::rate, Strings{"constant", "warm_up", "to_zero", "wild"})
            .draws(one_of<RateRule>(
                       {RateRule::constant, RateRule::warm_up, RateRule::to_zero, RateRule::wild}),
                   &Case::rate),
        number("beta1", &Case::beta1).draws(one_of<double>({0.5, 0.9, 0.0, 0.999}), &Case::beta1),
        number("beta2", &Case::beta2)
            .draws(one_of<double>({0.75, 0.95, 0.999, 0.0, 0.99999}), &Case::beta2),
        number("epsilon", &Case::epsilon)
            .draws(one_of<double>({1e-8, 1e-8, 0x1p-149, 1.0, 1e10}), &Case::epsilon),
        word("correction", &Case::bias_correction, problem::parse<BiasCorrection>)
            .draws(one_of<BiasCorrection>(
                       {BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum}),
                   &Case::bias_correction)
            .asked("of the moments")
            .named("bias-correction")
            .in_rows({"none", "adam", "momentum"}),
        number("decay", &Case::weight_decay).draws(one_of<double>({0.0, 0.1}), &Case::weight_decay),
        number("clip", &Case::clip_norm)
            .draws(one_of<double>({0.0, 0.01, 1.0, 1e6}), &Case::clip_norm)
            .asked("this norm; 0: no clipping",
                   {"clipped", "clipped to far below the norm", "clipping, and the norm is below"})
            .named("clip-norm")
            .one_text(),
        word("norm", &Case::norm, problem::parse<NormVersion>)
            .draws(one_of<NormVersion>(
                       {NormVersion::tree, NormVersion::tree, NormVersion::tree, NormVersion::ascending}),
                   &Case::norm),
        word("payload", &Case::payload, problem::parse<Payload>)
            .draws(one_of<Payload>({Payload::fp32, Payload::fp32, Payload::fp32, Payload::bf16,
                                    Payload::e5m2, Payload::bf16_both, Payload::e5m2_both}),
                   &Case::payload),
        word("data", &Case::data, problem::parse_data_class)
            .draws(one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::ties,
                                      DataClass::sparse, DataClass::zeros, DataClass::subnormal,
                                      DataClass::wide, DataClass::limit}),
                   &Case::data)
            .asked("only this class of gradients: " + problem::data_class_names(),
                   {"equal scores", "gradients of +0 and -0", "subnormal gradients",
                    "gradients at the limit of 2^56", "clipped", "the mask changes",
                    "the order of the parts shows"})
            .one_text(),
        number("silent", &Case::silent)
            .draws(one_of<int>({nobody, nobody, nobody, nobody, 0, 1}), &Case::silent),
        number("seed", &Case::seed)
            .draws(one_of<std::uint64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}), &Case::seed),
        number("parts", &Case::parts).draws(one_of<int>({1, 1, 1, 2, 3, 8}), &Case::parts),
        number("buckets", &Case::bucket_bytes)
            .draws(one_of<Index>({0, 0, 4, 16, 64, 4096}), &Case::bucket_bytes),
        word("cuts", &Case::cuts, Strings{"backward", "rebuilt", "wild"})
            .draws(one_of<CutRule>({CutRule::backward, CutRule::rebuilt, CutRule::wild}), &Case::cuts),
        number("steps", &Case::steps)
            .draws(one_of<Index>({1, 2, 3, 4, 5, 2, 3, 4, 5, 12}), &Case::steps)
            .asked("so many steps a case",
                   {"the learning rate changes", "a rate that begins at 0", "a rate that ends at 0",
                    "a step at rate 0 between others", "decay while the rate changes", "the density falls",
                    "the density jumps and repeats", "the density rises", "several steps",
                    "not in the first step", "late coordinates", "residuals that are not zero",
                    "the mask changes", "buckets change"})
            .one_text(),
        written("script", &Case::script, script_text, parse_script),
        written("damage", &Case::damage, damage_text, parse_damage),
        number("rank", &Case::chosen_rank).draws(from_to<int>(0, 32), &Case::chosen_rank),
        number("place", &Case::chosen_place).draws(from_to<Index>(0, 40'319), &Case::chosen_place),
        number("other_workers", &Case::other_workers).draws(one_of(worker_counts), &Case::other_workers),
        word("uneven", &Case::uneven, Strings{"0", "1"}).draws(one_of<bool>({false, true}), &Case::uneven)};
}

void check(const Case& run) {
    problem::check(problem_of(run));
    static_cast<void>(schedule_of(run));
    constexpr Index most_steps = 1'000'000;
    if (run.steps < 1 || run.steps > most_steps)
        throw Error("case: steps is " + std::to_string(run.steps) + "; it must be 1 to a million");
    // The gradients of all steps; and one more gradient, the residual and the parameters on each rank.
    problem::check_memory(4.0 * static_cast<double>(run.size()) * run.workers *
                              (3.0 + static_cast<double>(run.script.empty() ? run.steps : 0)),
                          "such a case");
    constexpr int most_parts = 1000;
    if (run.parts < 1 || run.parts > most_parts)
        throw Error("case: parts is " + std::to_string(run.parts) + "; it must be 1 to a thousand");
    if (run.bucket_bytes < 0)
        throw Error("case: buckets is " + std::to_string(run.bucket_bytes) +
                    "; it must be the bytes of one, or 0");
    if (run.other_workers < 1 || run.other_workers > problem::most_workers)
        throw Error("case: other_workers is " + std::to_string(run.other_workers) + "; it must be 1 to " +
                    std::to_string(problem::most_workers));
    for (const Operation& operation : run.script)
        problem::check_workers(operation.workers);
    if (run.owners_in_turn && problem::rounds_mean(run.payload))
        throw Error("case: owners is turn and payload is " + std::string(name(run.payload)) +
                    ", whose means are kept by who owns their range; set owners to range");
    if (run.chosen_rank < 0 || run.chosen_place < 0)
        throw Error("case: rank and place must not be negative");
}

/// Pins the other numbers of workers in a case, too.
void give_workers(Case& run, const Case& drawn, const gate::Overrides& overrides) {
    const auto found = overrides.find("workers");
    if (found == overrides.end() || found->second.empty())
        return;
    const auto given = [&](int workers) {
        return std::stoi(
            gate::given_value(found->second, std::to_string(workers), "1", std::to_string(drawn.seed)));
    };
    run.other_workers = given(drawn.other_workers);
    for (Operation& operation : run.script)
        if (operation.kind == Operation::Kind::restart)
            operation.workers = given(operation.workers);
}

int most_workers(const Case& run) {
    int most = std::max(run.workers, run.other_workers);
    for (const Operation& operation : run.script)
        most = std::max(most, operation.workers);
    return most;
}

std::vector<gate::Feature<Case>> features() {
    return {
        {"restart",
         [](Case& run) {
             std::erase_if(run.script, [](const Operation& operation) {
                 return operation.kind == Operation::Kind::restart ||
                        operation.kind == Operation::Kind::undo;
             });
         },
         {"a restart with other ranks", "a step undone", "several restarts",
          "a restart while the density changes", "several checkpoints", "two checkpoints of one step"}},
        {"parts",
         [](Case& run) {
             run.parts = 1;
             run.uneven = false;
             run.bucket_bytes = 0;
         },
         {"several parts", "uneven parts", "several buckets", "buckets change",
          "a tensor larger than a bucket"}},
        {"norm", [](Case& run) { run.norm = NormVersion::ascending; }},
        {"payload",
         [](Case& run) { run.payload = Payload::fp32; },
         {"a payload of bf16", "a payload of e5m2", "a mean that is rounded"}},
        {"e5m2",
         [](Case& run) {
             if (problem::format_of(run.payload) == Payload::e5m2)
                 run.payload = problem::rounds_mean(run.payload) ? Payload::bf16_both : Payload::bf16;
         },
         {"a payload of e5m2"}},
        {"both",
         [](Case& run) { run.payload = problem::format_of(run.payload); },
         {"a mean that is rounded"}},
        {"groups", [](Case& run) { run.groups.clear(); }, {"several groups", "groups of different sizes"}},
        {"owners", [](Case& run) { run.owners_in_turn = false; }},
        // More than an 8-bit counter holds.
        {"many steps", [](Case& run) { run.steps = std::min<Index>(run.steps, 300); }}};
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    static const gate::CaseSpec<Case> all{
        .settings = settings(),
        .usual_line = "steps=1",
        .draws = {{"workers", "tensors", "steps", "groups", "partition", "owners", "density", "schedule",
                   "start", "rate", "epsilon"}},
        .fits_drawn =
            [](Case& run) {
                without_certain_halts(run);
                with_owners_of_means(run);
                run.uneven = run.uneven && run.parts > 1 && run.workers > 1;
            },
        .fits = [](const Case& run, const auto&) { check(run); },
        .features = features(),
        .columns = {"workers", "density", "partition", "correction"},
        .most_workers = most_workers,
        .values_for =
            [](const gate::Implementation& implementation, const std::string& key, Strings values) {
                const bool dense = dynamic_cast<const Implementation&>(implementation).algorithm() ==
                                   problem::Algorithm::adams;
                return key == "density" && dense ? Strings{"1"} : std::move(values);
            },
        .fits_pins = give_workers};
    return all;
}

std::string text(const Case& run) {
    return spec().text(run);
}

Case parse_case(const std::string& line) {
    return spec().parse(line);
}

} // namespace truestep::properties::scape
