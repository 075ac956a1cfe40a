#include "program_hello.hpp"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include <scape/gate/program_hello.hpp>
#include <scape/properties/property.hpp>

namespace scape::properties {

using gate::Programs;

namespace {

using Json = Programs::Json;

const std::vector<std::string>& known_views() {
    static const std::vector<std::string> all{"parameters", "moment", "residual", "mask", "next_mask"};
    return all;
}

std::string text_in(const Json& answer, const char* key, const std::string& otherwise) {
    const auto found = answer.find(key);
    if (found == answer.end())
        return otherwise;
    if (!found->is_string())
        throw Error(std::string("\"") + key + "\" must be a text");
    return *found;
}

Shows shows_in(const Json& answer) {
    const auto found = answer.find("shows");
    if (found == answer.end())
        return {};
    if (!found->is_array())
        throw Error("\"shows\" must be a list of texts");
    const auto has = [&](const char* view) {
        return std::ranges::find(*found, Json(view)) != found->end();
    };
    for (const Json& view : *found)
        if (!view.is_string() ||
            std::ranges::find(known_views(), view.get<std::string>()) == known_views().end())
            throw Error("\"shows\" has " + view.dump() +
                        "; there are parameters, moment, residual, mask, next_mask");
    if (!has("parameters"))
        throw Error("\"shows\" lacks parameters; without them there is nothing to compare");
    return {has("moment"), has("residual"), has("mask"), has("next_mask")};
}

/// Settings that came later than the protocol: a program that says nothing of one is not asked for it.
const std::map<std::string, std::string>& later_settings() {
    static const std::map<std::string, std::string> all{
        {"norm", "the program does not say that it knows 'norm'"},
        {"payload", "the program does not say that it knows 'payload'"}};
    return all;
}

void leave_out_what_is_not_known(const Json& answer, gate::LeftOut& left_out) {
    const Json known = answer.value("knows", Json::array());
    if (!known.is_array())
        throw Error("\"knows\" must be a list of texts");
    for (const Json& setting : known)
        if (!setting.is_string() || !later_settings().contains(setting.get<std::string>()))
            throw Error("\"knows\" has " + setting.dump() + "; there are norm, payload");
    for (const auto& [setting, why] : later_settings())
        if (std::ranges::find(known, Json(setting)) == known.end())
            left_out.emplace(setting, why);
}

gate::LeftOut left_out_in(const Json& answer) {
    const auto found = answer.find("left_out");
    if (found == answer.end())
        return {};
    if (!found->is_object())
        throw Error(R"("left_out" must be an object of reasons: {"restart": "no checkpoints yet"})");
    gate::LeftOut all;
    for (const auto& [what, why] : found->items()) {
        if (!why.is_string() || why.get<std::string>().empty())
            throw Error("\"left_out\" has no reason for '" + what + "'; say it in a few words");
        if (std::ranges::none_of(all_properties(), [&what = what](const Property& property) {
                return property.name == what || property.name.starts_with(what + ".");
            }))
            throw Error("\"left_out\" has '" + what +
                        "'; it must be the name of a property, or what stands before the point in several; "
                        "see --list");
        all[what] = why.get<std::string>();
    }
    return all;
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
        {"restart.same", nothing},
        {"symmetry.rank_order", nothing},
        {"update.zero_gradients", nothing},
        {"dense.exact", {true, false, false, false}},
        {"dense.bound", {true, false, false, false}},
        {"symmetry.scale", {true, false, false, false}},
        {"conservation.exact", {true, true, false, false}},
        {"payload.residual", {true, true, true, false}},
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
    const std::int64_t version = gate::whole_number(answer, "protocol");
    if (version != program_protocol)
        throw Error("\"protocol\" is " + std::to_string(version) + "; this gate speaks " +
                    std::to_string(program_protocol));
    Hello hello;
    hello.name = settings.name.empty() ? text_in(answer, "name", "program") : settings.name;
    const bool plain =
        !hello.name.empty() && hello.name.size() <= 60 &&
        hello.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
            std::string::npos;
    if (!plain)
        throw Error("the program's name must be 1 to 60 letters, digits, '.', '_' or '-'; see --name");
    if (hello.name == "reference")
        throw Error(
            "the program's name is 'reference', which is not compared with the reference; see --name");
    const std::string level = text_in(answer, "level", "exact");
    if (level != "exact" && level != "rel")
        throw Error("\"level\" is '" + level + "'; it must be exact or rel");
    hello.level =
        settings.level.value_or(level == "rel" ? verify::LevelKind::rel : verify::LevelKind::exact);
    hello.shows = shows_in(answer);
    hello.left_out = left_out_in(answer);
    leave_out_what_is_not_known(answer, hello.left_out);
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
    leave_out_what_is_not_shown(hello);
    return hello;
}

} // namespace scape::properties
