// Decides from a program's answer to the greeting which properties of SCAPE it supports.
#include "program_hello.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/properties/scape/property.hpp>

namespace truestep::properties::scape {

namespace {

using Json = gate::Programs::Json;

const std::vector<std::string> program_views{"parameters", "moment", "residual", "mask", "next_mask"};

/// Settings and answers that were added to the protocol later, each with the properties that need it. A
/// program that does not list one is not asked for it.
const std::vector<std::pair<std::string, std::vector<std::string>>> later_settings{
    {"norm", {}},
    {"payload", {}},
    {"e5m2", {"payload.scale", "payload.zeros"}},
    {"both", {"payload.both"}},
    {"groups", {}},
    {"damage", {"restart.damage"}},
    {"starts", {}}};

void leave_out_what_is_not_known(const Json& answer, gate::Unsupported& unsupported) {
    const Json known = answer.value("knows", Json::array());
    if (!known.is_array())
        throw Error("\"knows\" must be a list of texts");
    for (const Json& word : known)
        if (std::ranges::none_of(later_settings, [&](const auto& later) { return word == later.first; }))
            throw Error("\"knows\" has " + word.dump() +
                        "; there are norm, payload, e5m2, both, groups, damage, starts");
    for (const auto& [setting, properties] : later_settings) {
        if (std::ranges::find(known, Json(setting)) != known.end())
            continue;
        unsupported.emplace(setting, "the program does not say that it knows '" + setting + "'");
        for (const std::string& property : properties)
            unsupported.emplace(property, unsupported.at(setting));
    }
}

/// Properties by the views that they need beside the parameters. Others need everything.
const std::vector<std::pair<std::set<std::string>, std::set<std::string>>> properties_by_needs{
    {{},
     {"reference", "machine", "replicas", "rerun", "refusal", "starts", "restart.same", "restart.damage",
      "symmetry.rank_order", "update.zero_gradients"}},
    {{"moment"}, {"dense.exact", "dense.bound", "symmetry.scale", "update.norm"}},
    {{"moment", "residual"}, {"conservation.exact", "conservation.rounding", "conservation.silent_rank"}},
    {{"moment", "residual", "mask"},
     {"payload.residual", "payload.scale", "payload.zeros", "payload.both", "conservation.every_rank",
      "update.clip"}},
    {{"moment", "mask"}, {"mask.off", "update.factor"}},
    {{"residual", "mask"}, {"mask.on"}},
    {{"mask", "next_mask"}, {"mask.count", "delay.later_gradients"}}};

/// At REL the next step is judged from the whole recorded state of this one.
void leave_out_what_is_not_shown(gate::ProgramHello& hello) {
    const bool exact = hello.level == verify::LevelKind::exact;
    for (const Property& property : all_properties()) {
        const auto known = std::ranges::find_if(
            properties_by_needs, [&](const auto& row) { return row.second.contains(property.name); });
        const bool needs_all =
            known == properties_by_needs.end() || (property.name == "reference" && !exact);
        std::string lacks;
        for (const std::string& view : program_views)
            if ((needs_all || known->first.contains(view)) && !hello.shows.contains(view))
                lacks += (lacks.empty() ? "" : ", ") + view;
        if (!lacks.empty())
            hello.unsupported.emplace(property.name, "the program does not show " + lacks);
    }
}

} // namespace

gate::ProgramSystem programs_of_scape() {
    std::vector<std::string> may_be_left_out = gate::names_of(all_properties());
    may_be_left_out.emplace_back("owners"); // a setting, of which programs have said nothing from the start
    return {"scape", 1, program_views, std::move(may_be_left_out),
            [](const Json& answer, gate::ProgramHello& hello) {
                leave_out_what_is_not_known(answer, hello.unsupported);
                for (const char* property : {"payload.overflow", "starts.states"})
                    hello.unsupported.emplace(property, "a program begins where a run does");
                leave_out_what_is_not_shown(hello);
            }};
}

VisibleState shows_of(const gate::ProgramHello& hello) {
    const auto shows = [&hello](const char* view) { return hello.shows.contains(view); };
    return {shows("moment"), shows("residual"), shows("mask"), shows("next_mask")};
}

} // namespace truestep::properties::scape
