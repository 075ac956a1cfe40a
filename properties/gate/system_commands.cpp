// Adds a subcommand for each system to a command, and uses the first system as the default.
#include <truestep/gate/system_commands.hpp>

#include <algorithm>

#include <truestep/problem/error.hpp>

namespace truestep::gate {

namespace {

/// The hidden option of a command that has systems; its default is the first of them.
const CLI::Option* option_of_system(const CLI::App& command) {
    const CLI::Option* option = command.get_option_no_throw("--system");
    return option != nullptr && option->get_group().empty() ? option : nullptr;
}

const CLI::App* subcommand(const CLI::App& command, const std::string& name) {
    const std::vector<const CLI::App*> all = subcommands_of(command);
    const auto found = std::ranges::find(all, name, [](const CLI::App* one) { return one->get_name(); });
    return found == all.end() ? nullptr : *found;
}

} // namespace

void by_system(CLI::App& command, const std::vector<System>& systems, const SetUpCommand& set_up,
               const std::function<bool(const System&)>& has) {
    std::string names;
    for (const System& system : systems)
        if (has(system))
            names += (names.empty() ? "" : ", ") + system.name;
    const std::string first = names.substr(0, names.find(','));
    command.add_option_function<std::string>("--system", [](const std::string&) {})
        ->group("")
        ->default_str(first);
    if (first == names) {
        set_up(command, find_system(systems, first), "");
        return;
    }
    command.require_subcommand(1);
    for (const System& system : systems) {
        if (!has(system))
            continue;
        CLI::App* one = command.add_subcommand(system.name, command.get_description() + "\n" + system.says);
        set_up(*one, system, system.name == first ? "" : " " + system.name);
        one->footer("Systems: " + names + "; '" + full_name(command) +
                    " SYSTEM --help' describes one; the default is " + first + ".\n" + one->get_footer());
    }
}

const CLI::App* default_command(const CLI::App& command) {
    const CLI::Option* option = option_of_system(command);
    return option == nullptr ? nullptr : subcommand(command, option->get_default_str());
}

std::string full_name(const CLI::App& command) {
    return (command.get_parent() == nullptr ? "" : full_name(*command.get_parent()) + " ") +
           command.get_name();
}

std::vector<const CLI::App*> subcommands_of(const CLI::App& command) {
    return command.get_subcommands([](const CLI::App*) { return true; });
}

std::pair<const CLI::App*, std::size_t> named_command(const CLI::App& app,
                                                      const std::vector<std::string>& words) {
    const CLI::App* command = &app;
    std::size_t at = 1;
    for (; at < words.size(); ++at) {
        const CLI::App* next = subcommand(*command, words[at]);
        if (next == nullptr)
            break;
        command = next;
    }
    return {command, at};
}

std::vector<std::string> with_system(const CLI::App& app, std::vector<std::string> words) {
    const auto [command, at] = named_command(app, words);
    const CLI::Option* option = option_of_system(*command);
    if (option == nullptr)
        return words;
    const std::string first = option->get_default_str();
    std::string named = first;
    const auto behind = words.begin() + static_cast<std::ptrdiff_t>(at);
    const auto given = std::find_if(behind, words.end(), [](const std::string& word) {
        return word == "--system" || word.starts_with("--system=");
    });
    if (given != words.end() && *given != "--system") {
        named = given->substr(given->find('=') + 1);
        words.erase(given);
    } else if (given != words.end() && given + 1 != words.end()) {
        named = *(given + 1);
        words.erase(given, given + 2);
    }
    const std::vector<const CLI::App*> systems = subcommands_of(*command);
    std::string names = systems.empty() ? first : "";
    for (const CLI::App* system : systems)
        names += (names.empty() ? "" : ", ") + system->get_name();
    if (named != first && subcommand(*command, named) == nullptr)
        throw Error("--system is '" + named + "'; there are " + names);
    if (!systems.empty())
        words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), named);
    return words;
}

} // namespace truestep::gate
