// How implementations of SCAPE are trained (section 33).
#include "learning.hpp"

#include <numeric>
#include <string>

#include <truestep/problem/partition.hpp>
#include <truestep/properties/scape/implementations.hpp>

namespace truestep::properties::scape {

namespace {

using gate::Learning;
using problem::Payload;

/// Three sizes: a first group that has a last rank to lose, one whose handlers are in its midst, and a
/// single rank.
const problem::Groups some_groups{2, 3, 1};

/// "payload bf16, in groups 2,3,1"; "" for fp32 without groups.
std::string name_of(Payload payload, const problem::Groups& groups) {
    std::string name =
        payload == Payload::fp32 ? std::string() : "payload " + std::string(problem::name(payload));
    if (!groups.empty())
        name += (name.empty() ? "" : ", ") + ("in groups " + problem::groups_text(groups));
    return name;
}

/// Three ranks, so that the order of additions matters, with clipping and decay.
Learning::Setting setting_with(Payload payload, const problem::Groups& groups) {
    Learning::Setting setting;
    setting.name = name_of(payload, groups);
    setting.words = "density 0.1, payload " + std::string(problem::name(payload)) +
                    (groups.empty() ? "" : ", in groups " + problem::groups_text(groups));
    setting.ranks = groups.empty() ? 3 : std::reduce(groups.begin(), groups.end());
    setting.hyper.clip_norm = 0.5;
    setting.hyper.payload = payload;
    setting.hyper.groups = groups;
    return setting;
}

std::string setting_of(const std::string& shows) {
    Payload payload = Payload::fp32;
    // The longer name last, since it begins with the shorter one.
    for (const Payload one : {Payload::bf16, Payload::e5m2, Payload::bf16_both})
        if (shows.find("payload of " + std::string(problem::name(one))) != std::string::npos)
            payload = one;
    const std::size_t needs = shows.find("Needs ");
    const bool grouped = needs != std::string::npos && shows.find("group", needs) != std::string::npos;
    return name_of(payload, grouped ? some_groups : problem::Groups());
}

const Implementation& ours(const gate::Implementation& implementation) {
    return dynamic_cast<const Implementation&>(implementation);
}

Setup setup_of(const Learning::LearningTask& lesson) {
    constexpr auto rule = problem::PartitionRule::by_tensor;
    constexpr double density = 0.1;
    const int ranks = lesson.setting.ranks;
    return {.problem = problem::make_problem(problem::Algorithm::scape, ranks, lesson.layout, rule,
                                             lesson.setting.hyper),
            .ranges = problem::ranges(lesson.layout, ranks, rule),
            .density = lesson.warm_up == 0
                           ? problem::DensitySchedule::constant(density)
                           : problem::DensitySchedule::geometric(1.0, density, lesson.warm_up),
            .parameters = lesson.parameters};
}

} // namespace

Learning learning() {
    Learning learning;
    for (const Payload payload : {Payload::fp32, Payload::bf16, Payload::e5m2, Payload::bf16_both})
        for (const problem::Groups& groups : {problem::Groups{}, some_groups})
            learning.settings.push_back(setting_with(payload, groups));
    learning.base = reference_implementation();
    learning.learns = [](const gate::Implementation& one) {
        return ours(one).algorithm() == problem::Algorithm::scape;
    };
    learning.train = [](const gate::Implementation& one, const Learning::LearningTask& lesson,
                        GradientSource& live) { ours(one).train(setup_of(lesson), live); };
    learning.setting_of = setting_of;
    return learning;
}

} // namespace truestep::properties::scape
