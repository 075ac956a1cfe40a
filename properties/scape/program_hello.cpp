#include "program_hello.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <truestep/gate/program_hello.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/properties/property.hpp>

namespace truestep::properties {

using gate::Programs;

namespace {

using Json = Programs::Json;

/// Settings, and answers, that came later than the protocol: a program that says nothing of one is not
/// asked for it.
const std::map<std::string, std::string>& later_settings() {
    static const std::map<std::string, std::string> all{
        {"norm", "the program does not say that it knows 'norm'"},
        {"payload", "the program does not say that it knows 'payload'"},
        {"e5m2", "the program does not say that it knows 'e5m2'"},
        {"both", "the program does not say that it knows 'both'"},
        {"groups", "the program does not say that it knows 'groups'"},
        {"damage", "the program does not say that it knows 'damage'"},
        {"starts", "the program does not say that it knows 'starts'"}};
    return all;
}

void leave_out_what_is_not_known(const Json& answer, gate::LeftOut& left_out) {
    const Json known = answer.value("knows", Json::array());
    if (!known.is_array())
        throw Error("\"knows\" must be a list of texts");
    for (const Json& setting : known)
        if (!setting.is_string() || !later_settings().contains(setting.get<std::string>()))
            throw Error("\"knows\" has " + setting.dump() +
                        "; there are norm, payload, e5m2, both, groups, damage, starts");
    for (const auto& [setting, why] : later_settings())
        if (std::ranges::find(known, Json(setting)) == known.end())
            left_out.emplace(setting, why);
    if (const auto e5m2 = left_out.find("e5m2"); e5m2 != left_out.end())
        for (const char* property : {"payload.scale", "payload.zeros"})
            left_out.emplace(property, e5m2->second);
    if (const auto both = left_out.find("both"); both != left_out.end())
        left_out.emplace("payload.both", both->second);
    if (const auto damage = left_out.find("damage"); damage != left_out.end())
        left_out.emplace("restart.damage", damage->second);
}

/// Of each property what it looks at beside the parameters; one that is not here looks at everything.
const std::map<std::string, Shows>& needs_of_properties() {
    constexpr Shows nothing{false, false, false, false};
    static const std::map<std::string, Shows> all{
        {"reference", nothing},
        {"machine", nothing},
        {"replicas", nothing},
        {"rerun", nothing},
        {"refusal", nothing},
        {"starts", nothing},
        {"restart.same", nothing},
        {"restart.damage", nothing},
        {"symmetry.rank_order", nothing},
        {"update.zero_gradients", nothing},
        {"dense.exact", {true, false, false, false}},
        {"dense.bound", {true, false, false, false}},
        {"symmetry.scale", {true, false, false, false}},
        {"conservation.exact", {true, true, false, false}},
        {"payload.residual", {true, true, true, false}},
        {"payload.scale", {true, true, true, false}},
        {"payload.zeros", {true, true, true, false}},
        {"payload.both", {true, true, true, false}},
        {"conservation.rounding", {true, true, false, false}},
        {"conservation.silent_rank", {true, true, false, false}},
        {"conservation.every_rank", {true, true, true, false}},
        {"mask.off", {true, false, true, false}},
        {"mask.on", {false, true, true, false}},
        {"mask.count", {false, false, true, true}},
        {"mask.order", {true, true, true, true}},
        {"delay.later_gradients", {false, false, true, true}},
        {"update.factor", {true, false, true, false}},
        {"update.clip", {true, true, true, false}},
        {"update.norm", {true, false, false, false}},
        {"restart.other", {true, true, true, true}},
    };
    return all;
}

/// What a property needs and is not shown, "" if it has it all.
std::string lacking(const Shows& needed, const Shows& shown) {
    std::string list;
    const auto add = [&list](bool need, bool show, const char* view) {
        if (need && !show)
            list += (list.empty() ? "" : ", ") + std::string(view);
    };
    add(needed.moment, shown.moment, "moment");
    add(needed.residual, shown.residual, "residual");
    add(needed.mask, shown.mask, "mask");
    add(needed.next_mask, shown.next_mask, "next_mask");
    return list;
}

/// At REL the next step is judged from all that was seen of this one.
void leave_out_what_is_not_shown(Hello& hello) {
    if (hello.shows.all())
        return;
    const bool exact = hello.level == verify::LevelKind::exact;
    for (const Property& property : all_properties()) {
        const auto known = needs_of_properties().find(property.name);
        const bool needs_all =
            known == needs_of_properties().end() || (property.name == "reference" && !exact);
        const std::string lacks = lacking(needs_all ? Shows{} : known->second, hello.shows);
        if (!lacks.empty())
            hello.left_out.emplace(property.name, "the program does not show " + lacks);
    }
}

} // namespace

Hello hello_of(const Programs::Json& answer, const gate::ProgramSettings& settings) {
    std::vector<std::string> names;
    for (const Property& property : all_properties())
        names.push_back(property.name);
    gate::ProgramHello said = gate::program_hello(
        answer, settings, {"parameters", "moment", "residual", "mask", "next_mask"}, names);
    const auto shows = [&said](const char* view) { return said.shows.contains(view); };
    Hello hello{std::move(said.name),
                said.level,
                {shows("moment"), shows("residual"), shows("mask"), shows("next_mask")},
                std::move(said.left_out)};
    leave_out_what_is_not_known(answer, hello.left_out);
    for (const char* property : {"payload.overflow", "starts.states"})
        hello.left_out.emplace(property, "a program begins where a run does");
    leave_out_what_is_not_shown(hello);
    return hello;
}

} // namespace truestep::properties
