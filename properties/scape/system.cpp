// SCAPE and AdamS in the gate's terms.
#include <truestep/properties/system.hpp>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <utility>

#include <truestep/gate/gate_main.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/properties/implementations.hpp>
#include <truestep/properties/property.hpp>
#include <truestep/verify/record.hpp>

#include "learning.hpp"
#include "self_test.hpp"

namespace truestep::properties {

namespace {

using gate::LeftOut;
using gate::Line;
using gate::Pins;
using problem::BiasCorrection;
using problem::PartitionRule;

template <class Number>
Number number(const std::string& option, const std::string& text) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("--" + option + " has '" + text + "'; it must be a number");
    return *value;
}

template <class Number>
Number at_least(const std::string& option, const std::string& text, Number least) {
    const auto value = number<Number>(option, text);
    if (!(value >= least))
        throw Error("--" + option + " is " + text + "; at least " + shortest(least) + " is needed");
    return value;
}

std::vector<gate::Pin> pins() {
    return {
        {"workers", "numbers of ranks; 1,2,3,4,5,7,8 without it", true,
         [](const std::string& text) { problem::check_workers(number<int>("workers", text)); }},
        {"density", "shares that are synchronized; 1,0.1,0.01 without it", true,
         [](const std::string& text) {
             static_cast<void>(problem::DensitySchedule::constant(number<double>("density", text)));
         }},
        {"partition", "by_shard, by_tensor", true,
         [](const std::string& text) { static_cast<void>(problem::parse<PartitionRule>(text)); }},
        {"bias-correction", "none, adam, momentum", true,
         [](const std::string& text) { static_cast<void>(problem::parse<BiasCorrection>(text)); }},
        {"data", "only this class of gradients: " + problem::data_class_names(), false,
         [](const std::string& text) { static_cast<void>(problem::parse_data_class(text)); }},
        {"steps", "so many steps a case", false,
         [](const std::string& text) { static_cast<void>(at_least<Index>("steps", text, 1)); }},
        {"tensors", "this model: name:size or name:size:dense, with commas between", false,
         [](const std::string& text) { static_cast<void>(problem::Layout(verify::parse_tensors(text))); }},
        {"clip-norm", "this norm; 0: no clipping", false,
         [](const std::string& text) { static_cast<void>(at_least<double>("clip-norm", text, 0.0)); }},
    };
}

/// One of the pinned values, by what was drawn: any of them may come, and shrinking leads to the first.
template <class Set>
void pin(const Pins& pins, const std::string& option, Index drawn, const Set& set) {
    if (const auto found = pins.find(option); found != pins.end() && !found->second.empty())
        set(found->second[static_cast<std::size_t>(drawn) % found->second.size()]);
}

Line pinned(const Line& line, const Pins& pins) {
    Case run = parse_case(line);
    const Index place = run.chosen_place;
    const auto set_workers = [](int& to) {
        return [&to](const std::string& text) { to = number<int>("workers", text); };
    };
    pin(pins, "workers", place / 3, set_workers(run.workers));
    pin(pins, "workers", place / 11, set_workers(run.other_workers));
    Index drawn = place / 5;
    for (Operation& operation : run.script)
        if (operation.kind == Operation::Kind::restart)
            pin(pins, "workers", drawn++, set_workers(operation.workers));
    pin(pins, "density", place / 7,
        [&](const std::string& text) { run.density = number<double>("density", text); });
    pin(pins, "partition", place / 13,
        [&](const std::string& text) { run.partition = problem::parse<PartitionRule>(text); });
    pin(pins, "bias-correction", place / 17,
        [&](const std::string& text) { run.bias_correction = problem::parse<BiasCorrection>(text); });
    pin(pins, "data", place / 19,
        [&](const std::string& text) { run.data = problem::parse_data_class(text); });
    pin(pins, "steps", 0, [&](const std::string& text) { run.steps = number<Index>("steps", text); });
    pin(pins, "tensors", 0, [&](const std::string& text) { run.tensors = verify::parse_tensors(text); });
    pin(pins, "clip-norm", 0,
        [&](const std::string& text) { run.clip_norm = number<double>("clip-norm", text); });
    return text(run);
}

bool decided(const std::string& kind, const Pins& pins, const LeftOut& left_out) {
    const auto is_one_of = [&kind](std::initializer_list<const char*> kinds) {
        return std::ranges::any_of(kinds, [&](const char* other) { return kind == other; });
    };
    const auto has = [&pins](const char* option) { return pins.contains(option); };
    return (left_out.contains("payload") &&
            is_one_of({"a payload of bf16", "a payload of e5m2", "a mean that is rounded"})) ||
           (left_out.contains("both") && is_one_of({"a mean that is rounded"})) ||
           (left_out.contains("e5m2") && is_one_of({"a payload of e5m2"})) ||
           (left_out.contains("groups") && is_one_of({"several groups", "groups of different sizes"})) ||
           (left_out.contains("parts") && is_one_of({"several parts", "several buckets", "buckets change",
                                                     "a tensor larger than a bucket"})) ||
           (left_out.contains("restart") &&
            is_one_of({"a restart with other ranks", "a step undone", "several restarts",
                       "a restart while the density changes", "several checkpoints",
                       "two checkpoints of one step"})) ||
           (has("workers") &&
            is_one_of({"several ranks", "a mean that is rounded", "a mean that rounding changes",
                       "no power of two", "fewer", "more", "another order", "a restart with other ranks",
                       "more parameters than ranks", "fewer parameters than ranks", "more than 8 ranks",
                       "several buckets", "buckets change", "several groups", "groups of different sizes",
                       "settings that differ", "parameters that differ in a bit",
                       "a rank gives other buckets"})) ||
           (has("density") &&
            is_one_of({"the density falls", "k is 1 of several", "k is all but one",
                       "rho*n ends in one half", "a restart while the density changes", "the density rises",
                       "density below 1", "something off the mask", "the mask changes", "late coordinates",
                       "residuals that are not zero"})) ||
           (has("steps") &&
            is_one_of({"the learning rate changes", "a rate that begins at 0", "a rate that ends at 0",
                       "a step at rate 0 between others", "decay while the rate changes",
                       "the density falls", "the density jumps and repeats", "the density rises",
                       "several steps", "not in the first step", "late coordinates",
                       "residuals that are not zero", "the mask changes", "buckets change"})) ||
           (has("data") && is_one_of({"equal scores", "gradients of +0 and -0", "subnormal gradients",
                                      "gradients at the limit of 2^56", "clipped", "the mask changes",
                                      "the order of the parts shows"})) ||
           (has("clip-norm") &&
            is_one_of({"clipped", "clipped to far below the norm", "clipping, and the norm is below"})) ||
           (has("tensors") &&
            is_one_of({"k is 1 of several", "k is all but one", "rho*n ends in one half",
                       "a tensor larger than a bucket", "an always-dense tensor", "several buckets",
                       "buckets change", "more parameters than ranks", "fewer parameters than ranks",
                       "density below 1", "something off the mask", "the mask changes", "late coordinates",
                       "residuals that are not zero"}));
}

std::vector<Pins> rows(const gate::Implementation& implementation, const Pins& pins) {
    const bool adams =
        dynamic_cast<const Implementation&>(implementation).algorithm() == problem::Algorithm::adams;
    const auto values = [&pins](const char* option, const std::vector<std::string>& usual) {
        const auto found = pins.find(option);
        return found == pins.end() || found->second.empty() ? usual : found->second;
    };
    std::vector<Pins> all;
    for (const std::string& workers : values("workers", {"1", "2", "3", "4", "5", "7", "8"})) {
        if (!implementation.takes(number<int>("workers", workers)))
            continue;
        for (const std::string& density :
             adams ? std::vector<std::string>{"1"} : values("density", {"1", "0.1", "0.01"}))
            for (const std::string& partition : values("partition", {"by_shard", "by_tensor"}))
                for (const std::string& correction :
                     values("bias-correction", {"none", "adam", "momentum"})) {
                    Pins row = pins;
                    row["workers"] = {workers};
                    row["density"] = {density};
                    row["partition"] = {partition};
                    row["bias-correction"] = {correction};
                    all.push_back(std::move(row));
                }
    }
    return all;
}

/// Has somebody asked for another than those that stand here?
bool is_another_model(const Pins& pins) {
    return std::ranges::any_of(std::array{"tensors", "steps", "data", "clip-norm"},
                               [&pins](const char* option) { return pins.contains(option); });
}

/// A model with something of everything, larger than what is drawn.
std::vector<Line> standing(const Pins& pins) {
    if (is_another_model(pins))
        return {};
    Case run;
    run.tensors = {{"embed", 4500, false},
                   {"norm", 33, true},
                   {"gate", 1, false},
                   {"mlp", 901, false},
                   {"tiny", 7, false}};
    run.workers = number<int>("workers", pins.at("workers").front());
    run.density = number<double>("density", pins.at("density").front());
    run.partition = problem::parse<PartitionRule>(pins.at("partition").front());
    run.bias_correction = problem::parse<BiasCorrection>(pins.at("bias-correction").front());
    run.beta1 = 0.9;
    run.beta2 = 0.95;
    run.weight_decay = 0.1;
    run.data = problem::DataClass::normal;
    run.steps = 4;
    return {text(run)};
}

int most_workers(const Line& line) {
    const Case run = parse_case(line);
    int most = std::max(run.workers, run.other_workers);
    for (const Operation& operation : run.script)
        most = std::max(most, operation.workers);
    return most;
}

const Implementation& ours(const gate::Implementation& implementation) {
    return dynamic_cast<const Implementation&>(implementation);
}

Line needed(const Property& property, const Line& line, const LeftOut& left_out) {
    Case run = parse_case(line);
    if (left_out.contains("restart"))
        std::erase_if(run.script, [](const Operation& operation) {
            return operation.kind == Operation::Kind::restart || operation.kind == Operation::Kind::undo;
        });
    if (left_out.contains("parts")) {
        run.parts = 1;
        run.bucket_bytes = 0;
    }
    if (left_out.contains("norm"))
        run.norm = problem::NormVersion::ascending;
    if (left_out.contains("payload"))
        run.payload = problem::Payload::fp32;
    if (left_out.contains("e5m2") && problem::format_of(run.payload) == problem::Payload::e5m2)
        run.payload =
            problem::rounds_mean(run.payload) ? problem::Payload::bf16_both : problem::Payload::bf16;
    if (left_out.contains("both"))
        run.payload = problem::format_of(run.payload);
    if (left_out.contains("groups"))
        run.groups.clear();
    if (left_out.contains("many steps"))
        run.steps = std::min<Index>(run.steps, 300); // as many as a counter of 8 bits does not have
    if (run.bucket_bytes == 0)
        run.cuts = CutRule::backward;
    // A script is what is followed: one that has lost everything still steps.
    if (property.name == "machine" && run.script.empty())
        run.script.push_back({});
    property.needs(run);
    return text(run);
}

gate::Property in_the_gates_terms(const Property& property) {
    return {
        property.number,
        property.name,
        property.says,
        [&property] { return rc::gen::map(property.cases(), [](const Case& run) { return text(run); }); },
        [&property](const gate::Implementation& implementation, const Line& line) {
            return judged(ours(implementation), property, parse_case(line));
        },
        property.at_least,
        [&property](const gate::Implementation& implementation) {
            return property.skipped(ours(implementation));
        },
        [&property](const Line& line, const LeftOut& left_out) { return needed(property, line, left_out); },
        [&property](const gate::Implementation& implementation, const Pins& pins) {
            std::vector<Line> lines;
            if (is_another_model(pins))
                return lines;
            // So many steps are no matter of ranks, and take seconds where each has to be told to
            // processes.
            constexpr Index many = 1000;
            for (const Case& run : property.also)
                if ((run.steps <= many || !pins.contains("workers")) &&
                    run.size() <= ours(implementation).most_parameters())
                    lines.push_back(pinned(text(run), pins));
            return lines;
        }};
}

} // namespace

gate::System system_of_properties() {
    gate::System system;
    system.name = "scape";
    system.says =
        "SCAPE on AdamS: a share of the coordinates per step, masks one step late, local residuals.";
    system.parsed = [](const Line& line) { return text(parse_case(line)); };
    system.most_workers = most_workers;
    system.pins = pins();
    system.pinned = pinned;
    system.decided = decided;
    system.settings = {"workers", "density", "partition", "correction"};
    system.options_of_settings = {{"correction", "bias-correction"}};
    system.rows = rows;
    system.standing = standing;
    for (const Property& property : all_properties())
        system.properties.push_back(in_the_gates_terms(property));
    system.unseen = what_the_gate_does_not_see;
    system.program = program_implementation;
    system.learning = learning();
    return system;
}

gate::System system_with(std::vector<Ranked> candidates) {
    gate::System system = system_of_properties();
    system.implementations = [candidates =
                                  std::move(candidates)](const std::shared_ptr<const Group>& group) {
        gate::Implementations all;
        for (const Ranked& candidate : candidates)
            all.push_back(on_ranks(candidate, group));
        return all;
    };
    return system;
}

int gate_main(int count, char** values, std::vector<Ranked> candidates) {
    return gate::gate_main(count, values, {system_with(std::move(candidates))});
}

} // namespace truestep::properties
