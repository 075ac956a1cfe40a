// Finds the separate programs behind subcommands, and replaces this process with one of them.
#include <truestep/gate/subcommands.hpp>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>

#include <unistd.h>

#include <truestep/gate/command_line.hpp>
#include <truestep/gate/exit_status.hpp>
#include <truestep/gate/manual.hpp>
#include <truestep/gate/results.hpp>

namespace truestep::gate {

namespace fs = std::filesystem;

fs::path find_program(const std::string& name) {
    if (name.find('/') != std::string::npos)
        return {};
    std::error_code unknown;
    const fs::path self = fs::read_symlink("/proc/self/exe", unknown);
    std::vector<fs::path> places{self.string() + "-" + name, self.parent_path() / ("truestep-" + name)};
    const char* path = std::getenv("PATH");
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');)
        places.push_back(fs::path(folder) / ("truestep-" + name));
    for (const fs::path& place : places)
        if (std::error_code none; fs::is_regular_file(place, none) && access(place.c_str(), X_OK) == 0)
            return place;
    return {};
}

std::string missing_program(const std::string& name) {
    return "truestep-" + name +
           " was not found beside this program or in PATH; ci/build release truestep-" + name +
           " builds it";
}

int become(const fs::path& program, std::vector<std::string> arguments) {
    std::vector<char*> pointers;
    pointers.reserve(arguments.size() + 1);
    for (std::string& argument : arguments)
        pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    std::fflush(nullptr);
    execv(program.c_str(), pointers.data());
    std::fprintf(stderr, "truestep: %s cannot be started: %s\n", program.c_str(), std::strerror(errno));
    return bad_input;
}

std::string ask(const fs::path& program, const std::string& what) {
    const std::string command = shell_word(program.string()) + " " + what;
    const std::unique_ptr<FILE, int (*)(FILE*)> answer(popen(command.c_str(), "r"), pclose);
    std::string text;
    std::array<char, 4096> part{};
    while (answer && std::fgets(part.data(), part.size(), answer.get()) != nullptr)
        text += part.data();
    return text;
}

int subcommand_main(
    const std::string& name, int count, char** values,
    const std::function<void(CLI::App&, int& status, const std::vector<std::string>& arguments)>& add) {
    // Restores the tool's arguments: it calls "build/bin/truestep-NAME" in place of "build/bin/truestep
    // NAME".
    std::vector<std::string> arguments(values, values + count);
    if (std::string& tool = arguments.front(); tool.ends_with("-" + name))
        tool.resize(tool.size() - name.size() - 1);
    arguments.insert(arguments.begin() + 1, name);
    int status = bad_input;
    CLI::App app("", "truestep");
    app.require_subcommand(1);
    add(app, status, arguments);
    const CLI::App& command = *app.get_subcommand(name);
    const std::map<std::string, std::string> answers{
        {"--says", command.get_description()},
        {"--manual-section", manual_section(command, "truestep " + name)},
        {"--completion-branches", completion_branches(command, name)}};
    if (const auto answer = answers.find(arguments.back()); count == 2 && answer != answers.end()) {
        std::fputs(answer->second.c_str(), stdout);
        return all_passed;
    }
    return run_command_line(app, arguments, status);
}

} // namespace truestep::gate
