// The manual page and the completion, made from what the command line itself knows, so that neither can
// lack an option.
#include "manual.hpp"

#include <cctype>
#include <cstdio>
#include <sstream>
#include <vector>

#include <truestep/gate/system_commands.hpp>
#include <truestep/report/environment.hpp>

#include "commands.hpp"

namespace truestep::tool {

namespace {

using gate::subcommands_of;

/// Those that help shows.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
    return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

/// "-o,--output", or the name of a positional.
std::string names_of(const CLI::Option& option) {
    return option.get_name(false, true);
}

bool takes_value(const CLI::Option& option) {
    return option.get_items_expected_max() > 0;
}

/// Text that troff takes as it stands.
std::string in_roff(const std::string& text) {
    std::string result;
    bool line_begins = true;
    char before = ' ';
    for (const char one : text) {
        // A long list without spaces may be broken here, too.
        if (before == ',' && std::isalnum(static_cast<unsigned char>(one)) != 0)
            result += "\\:";
        before = one;
        if (line_begins && (one == '.' || one == '\''))
            result += "\\&";
        line_begins = one == '\n';
        if (one == '\\')
            result += "\\e";
        else if (one == '-')
            result += "\\-";
        else if (one == '\'')
            result += "\\(aq";
        else
            result += one;
    }
    return result;
}

/// Whether the command of the first system has the same option, where it has been described.
bool is_of_first_system(const CLI::App& app, const CLI::Option& option) {
    const CLI::App* first =
        app.get_parent() == nullptr ? nullptr : gate::default_command(*app.get_parent());
    if (first == nullptr || first == &app)
        return false;
    const CLI::Option* other = first->get_option_no_throw(option.get_name());
    return other != nullptr && other->get_description() == option.get_description();
}

std::string options_of_manual(const CLI::App& app) {
    std::string roff;
    for (const CLI::Option* option : options_of(app)) {
        if (is_of_first_system(app, *option))
            continue;
        const std::string type = option->get_type_name();
        const bool named = !option->get_lnames().empty() || !option->get_snames().empty();
        roff += ".TP\n\\fB" + in_roff(names_of(*option)) + "\\fR" +
                (named && takes_value(*option) && !type.empty() ? " \\fI" + in_roff(type) + "\\fR" : "") +
                "\n" + in_roff(option->get_description()) + "\n";
    }
    return roff;
}

/// The examples keep their lines.
std::string footer_of(const CLI::App& app) {
    const std::string footer = app.get_footer();
    return footer.empty() ? footer : ".PP\n.nf\n" + in_roff(footer) + "\n.fi\n";
}

std::string section_of(const CLI::App& app, const std::string& path) {
    std::string roff = ".SS " + in_roff(path) + "\n" + in_roff(app.get_description()) + "\n" +
                       options_of_manual(app) + footer_of(app);
    for (const CLI::App* command : subcommands_of(app))
        roff += section_of(*command, path + " " + command->get_name());
    return roff;
}

/// One branch of the completion's `case`: what may stand behind these subcommands.
std::string branches_of(const CLI::App& app, const std::string& path) {
    std::string words;
    for (const CLI::App* command : subcommands_of(app))
        words += command->get_name() + " ";
    const CLI::App* usual = gate::default_command(app);
    for (const CLI::Option* option : options_of(usual == nullptr ? app : *usual))
        for (const std::string& name : option->get_lnames())
            words += "--" + name + " ";
    std::string text = "        '" + path + "') words='" + words + "' ;;\n";
    for (const CLI::App* command : subcommands_of(app))
        text +=
            branches_of(*command, path.empty() ? command->get_name() : path + " " + command->get_name());
    return text;
}

} // namespace

std::string manual_page(const CLI::App& app) {
    std::string roff =
        ".TH TRUESTEP 1 \"\" \"truestep " + report::version() +
        "\"\n.ad l\n.nh\n.SH NAME\ntruestep \\- checks communication\\-efficient optimizers\n.SH SYNOPSIS\n"
        ".B truestep\n.I COMMAND\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n" +
        in_roff(app.get_description()) + "\n" + options_of_manual(app) + ".SH COMMANDS\n";
    for (const CLI::App* command : subcommands_of(app))
        roff += section_of(*command, "truestep " + command->get_name());
    return roff +
           ".SH EXIT STATUS\n.TP\n0\nall passed\n.TP\n1\na difference, or too little data to prove "
           "anything\n.TP\n2\nbad input or usage\n.TP\n3\nonly under mpirun: a rank failed or hung\n";
}

std::string bash_completion(const CLI::App& app) {
    std::ostringstream text;
    text << "# bash completion for truestep; made by `truestep completion`.\n"
            "_truestep() {\n"
            "    local current=${COMP_WORDS[COMP_CWORD]} path= words= i next\n"
            "    for ((i = 1; i < COMP_CWORD; ++i)); do\n"
            "        next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
            "        case \" $(_truestep_paths) \" in *\" ${next// /,} \"*) path=$next ;; esac\n"
            "    done\n"
            "    case $path in\n"
         << branches_of(app, "")
         << "    esac\n"
            "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$current\")\n"
            "}\n"
            "_truestep_paths() { echo '";
    for (const CLI::App* command : subcommands_of(app)) {
        text << command->get_name() << " ";
        for (const CLI::App* below : subcommands_of(*command))
            text << command->get_name() << "," << below->get_name() << " ";
    }
    text << "'; }\ncomplete -o default -F _truestep truestep\n";
    return text.str();
}

void add_manual(CLI::App& app, int& status) {
    const auto add = [&](const std::string& name, const std::string& says, const std::string& footer,
                         std::string (*made)(const CLI::App&)) {
        CLI::App* command = app.add_subcommand(name, says);
        command->footer(footer);
        command->callback([&app, &status, made] {
            std::fputs(made(app).c_str(), stdout);
            status = all_passed;
        });
    };
    add("completion", "completion of subcommands and options for bash",
        "cmake --install puts it where bash finds it.\nExample:\n  source <(truestep completion)",
        bash_completion);
    add("man", "this help as a page for man",
        "cmake --install puts it where man finds it.\nExample:\n  truestep man >truestep.1", manual_page);
}

} // namespace truestep::tool
