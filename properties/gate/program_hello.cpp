// Reads a program's answer to the greeting: its name, level, views and unsupported properties.
#include <truestep/gate/program_implementation.hpp>

#include <algorithm>
#include <cstdint>

#include <truestep/problem/error.hpp>

namespace truestep::gate {

namespace {

using HelloJson = Programs::Json;

std::string text_in(const HelloJson& answer, const char* key, const std::string& otherwise) {
    const auto found = answer.find(key);
    if (found == answer.end())
        return otherwise;
    if (!found->is_string())
        throw Error(std::string("\"") + key + "\" must be a text");
    return *found;
}

std::string name_in(const HelloJson& answer) {
    std::string name = text_in(answer, "name", "program");
    const bool plain =
        !name.empty() && name.size() <= 60 &&
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
            std::string::npos;
    if (!plain)
        throw Error("the program's name must be 1 to 60 letters, digits, '.', '_' or '-'; mend its hello");
    if (name == "reference")
        throw Error(
            "the program's name is 'reference', which is not compared with the reference; mend its hello");
    return name;
}

verify::LevelKind level_in(const HelloJson& answer, const ProgramSettings& settings) {
    const std::string level = text_in(answer, "level", "exact");
    if (level != "exact" && level != "rel")
        throw Error("\"level\" is '" + level + "'; it must be exact or rel");
    return settings.level.value_or(level == "rel" ? verify::LevelKind::rel : verify::LevelKind::exact);
}

std::set<std::string> shows_in(const HelloJson& answer, const std::vector<std::string>& views) {
    std::set<std::string> all(views.begin(), views.end());
    const auto found = answer.find("shows");
    if (found == answer.end())
        return all;
    if (!found->is_array())
        throw Error("\"shows\" must be a list of texts");
    std::set<std::string> shown;
    for (const HelloJson& view : *found) {
        if (!view.is_string() || !all.contains(view.get<std::string>())) {
            std::string known;
            for (const std::string& one : views)
                known += (known.empty() ? "" : ", ") + one;
            throw Error("\"shows\" has " + view.dump() + "; there are " + known);
        }
        shown.insert(view.get<std::string>());
    }
    if (!shown.contains(views.front()))
        throw Error("\"shows\" lacks " + views.front() + "; without them there is nothing to compare");
    return shown;
}

Unsupported left_out_in(const HelloJson& answer, const std::vector<std::string>& properties) {
    const auto found = answer.find("left_out");
    if (found == answer.end())
        return {};
    if (!found->is_object())
        throw Error(R"("left_out" must be an object of reasons: {"restart": "no checkpoints yet"})");
    Unsupported all;
    for (const auto& [what, why] : found->items()) {
        if (!why.is_string() || why.get<std::string>().empty())
            throw Error("\"left_out\" has no reason for '" + what + "'; say it in a few words");
        if (std::ranges::none_of(properties, [&what = what](const std::string& property) {
                return property == what || property.starts_with(what + ".");
            }))
            throw Error("\"left_out\" has '" + what +
                        "'; it must be the name of a property, or what stands before the point in several; "
                        "see --list");
        all[what] = why.get<std::string>();
    }
    return all;
}

} // namespace

ProgramHello greeted(Programs& programs, const ProgramSettings& settings, const ProgramSystem& system) {
    const HelloJson& answer = programs.greeted(system.least_workers);
    try {
        const std::int64_t version = whole_number(answer, "protocol");
        if (version != program_protocol)
            throw Error("\"protocol\" is " + std::to_string(version) + "; this gate speaks " +
                        std::to_string(program_protocol));
        ProgramHello hello{name_in(answer), level_in(answer, settings), shows_in(answer, system.views),
                           left_out_in(answer, system.properties)};
        system.leave_out(answer, hello);
        return hello;
    } catch (const Error& error) {
        throw Error(std::string("--program, in its answer to 'hello': ") + error.what());
    }
}

std::filesystem::path empty_folder(const Group& group, const std::string& name) {
    std::filesystem::path folder = std::filesystem::absolute(scratch_folder(group)) / name;
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    return folder;
}

} // namespace truestep::gate
