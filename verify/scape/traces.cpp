// Traces of SCAPE and AdamS in the terms of whoever knows no system.
#include <scape/verify/scape_traces.hpp>

#include <utility>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/verify/record.hpp>
#include <scape/verify/trace.hpp>
#include <scape/verify/verify_trace.hpp>

namespace scape::verify {

namespace {

using Takes = Setting::Takes;

std::vector<Setting> settings() {
    const problem::HyperParameters hyper;
    return {
        {"algorithm", "scape", "scape or adams"},
        {"workers", "3", "number of ranks"},
        {"steps", "8", "number of steps"},
        {"tensors", "embed:40,norm:5:dense,mlp:55", "name:size or name:size:dense, with commas between"},
        {"partition", "by_shard", "by_shard or by_tensor"},
        {"density", "0.1", "share of each segment that is synchronized, in the end"},
        {"density-schedule", "constant", "constant, geometric or linear"},
        {"density-start", "1", "density of the first mask, unless constant"},
        {"density-steps", "4", "steps from the first density to the last"},
        {"learning-rate", "0.01", "of the first step"},
        {"final-learning-rate", "-1", "of the last step, on a straight line; below 0: as the first"},
        {"beta1", shortest(hyper.beta1), "decay of the first moment, in [0, 1)"},
        {"beta2", shortest(hyper.beta2), "weight of the moment in the denominator, in [0, 1)"},
        {"epsilon", shortest(hyper.epsilon), "added to the denominator"},
        {"weight-decay", shortest(hyper.weight_decay), "decoupled decay"},
        {"clip-norm", shortest(hyper.clip_norm), "largest norm of the gradient; 0: no clipping"},
        {"norm", "2", "order of that norm's sums: 1, or 2 of the second edition"},
        {"payload", "fp32", "what of c travels: fp32, bf16 or e5m2; bf16_both or e5m2_both: and what of M"},
        {"groups", "", "ranks of each group, with commas between, if the mean is made on two levels"},
        {"arithmetic", "fp32",
         "fp32, or bf16: gradients, state and every operation are rounded to it, as the plainest code "
         "in bf16 has it (verify --level bf16)"},
        {"bias-correction", "adam", "none, adam or momentum"},
        {"k-rounding", "floor", "floor, or ceil as an older artifact had it"},
        {"seed", "1", "of the gradients and the initial parameters"},
        {"data", "normal", "class of the gradients: " + problem::data_class_names()},
        {"begin", "0", "steps that are taken before the first that is written"},
        {"sample", "",
         "the segments that are written, all steps being taken in full: a share such as 0.001 "
         "or 0.001:SEED, or tensors such as wq,norm or wq@5000 (the segment of index 5000)"},
        {"inject", "", "step:rank:coordinate:value put into the gradients, such as 2:0:17:nan",
         Takes::many},
    };
}

problem::DensitySchedule density_of(const Settings& given) {
    const std::string schedule = given.text("density-schedule");
    const double last = given.number("density");
    if (schedule == "constant")
        return problem::DensitySchedule::constant(last);
    const double first = given.number("density-start");
    if (schedule == "geometric")
        return problem::DensitySchedule::geometric(first, last, given.integer("density-steps"));
    if (schedule == "linear")
        return problem::DensitySchedule::linear(first, last, given.integer("density-steps"));
    throw Error("--density-schedule is '" + schedule + "'; it must be constant, geometric or linear");
}

problem::HyperParameters hyper_of(const Settings& given) {
    problem::HyperParameters hyper;
    hyper.beta1 = given.number("beta1");
    hyper.beta2 = given.number("beta2");
    hyper.epsilon = given.number("epsilon");
    hyper.weight_decay = given.number("weight-decay");
    hyper.clip_norm = given.number("clip-norm");
    hyper.bias_correction = problem::parse<problem::BiasCorrection>(given.text("bias-correction"));
    hyper.norm = problem::parse<problem::NormVersion>(given.text("norm"));
    hyper.payload = problem::parse<problem::Payload>(given.text("payload"));
    hyper.groups = problem::parse_groups(given.text("groups"));
    hyper.k_rounding = problem::parse<problem::KRounding>(given.text("k-rounding"));
    return hyper;
}

Arithmetic arithmetic_of(const Settings& given) {
    const std::string text = given.text("arithmetic");
    if (text != "fp32" && text != "bf16")
        throw Error("--arithmetic is '" + text + "'; it must be fp32 or bf16");
    return text == "bf16" ? Arithmetic::bf16 : Arithmetic::fp32;
}

int workers_of(const Settings& given) {
    const Index workers = given.integer("workers");
    problem::check_workers(workers);
    return static_cast<int>(workers);
}

void record_made_up(const MadeUpRun& run) {
    const Settings& given = run.settings;
    const double first = given.number("learning-rate");
    const double last = given.number("final-learning-rate");
    RecordOptions options{
        problem::make_problem(problem::parse<problem::Algorithm>(given.text("algorithm")),
                              workers_of(given), problem::Layout(parse_tensors(given.text("tensors"))),
                              problem::parse<problem::PartitionRule>(given.text("partition")),
                              hyper_of(given)),
        density_of(given),
        given.integer("steps"),
        first,
        last < 0.0 ? first : last,
        given.seed("seed"),
        problem::parse_data_class(given.text("data")),
        {},
        run.intermediates,
        run.source,
        run.progress,
        run.replicas};
    options.sample = given.text("sample");
    options.begin = given.integer("begin");
    options.arithmetic = arithmetic_of(given);
    for (const std::string& injection : given.texts("inject"))
        options.injections.push_back(parse_injection(injection));
    record(run.output, options);
}

} // namespace

Traces scape_traces() {
    return {{"scape", "adams"}, schema_of_config, verify_trace, settings(), record_made_up};
}

} // namespace scape::verify
