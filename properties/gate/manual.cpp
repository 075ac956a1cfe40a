// The manual page and the completion, made from what the command line itself knows, so that neither can
// lack an option.
#include <truestep/gate/manual.hpp>

#include <cctype>
#include <vector>

#include <truestep/gate/system_commands.hpp>
#include <truestep/report/environment.hpp>

namespace truestep::gate {

namespace {

/// The options that help shows.
std::vector<const CLI::Option*> shown_options(const CLI::App& app) {
    return app.get_options([](const CLI::Option* option) { return !option->get_group().empty(); });
}

/// "-o,--output", or the name of a positional.
std::string names_of(const CLI::Option& option) {
    return option.get_name(false, true);
}

bool takes_value(const CLI::Option& option) {
    return option.get_items_expected_max() > 0;
}

/// The text escaped for troff.
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

/// Whether the command of the first system has the same option, which is then described there.
bool is_of_first_system(const CLI::App& app, const CLI::Option& option) {
    const CLI::App* first = app.get_parent() == nullptr ? nullptr : default_command(*app.get_parent());
    if (first == nullptr || first == &app)
        return false;
    const CLI::Option* other = first->get_option_no_throw(option.get_name());
    return other != nullptr && other->get_description() == option.get_description();
}

std::string options_of_manual(const CLI::App& app) {
    std::string roff;
    for (const CLI::Option* option : shown_options(app)) {
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

/// The footer with its lines kept, since it holds examples.
std::string footer_of(const CLI::App& app) {
    const std::string footer = app.get_footer();
    return footer.empty() ? footer : ".PP\n.nf\n" + in_roff(footer) + "\n.fi\n";
}

/// One branch of the completion's `case`: the words that may follow these subcommands.
std::string branch_of(const CLI::App& app, const std::string& path) {
    std::string words;
    for (const CLI::App* command : subcommands_of(app))
        words += command->get_name() + " ";
    const CLI::App* usual = default_command(app);
    for (const CLI::Option* option : shown_options(usual == nullptr ? app : *usual))
        for (const std::string& name : option->get_lnames())
            words += "--" + name + " ";
    return "        '" + path + "') echo '" + words + "' ;;\n";
}

} // namespace

std::string manual_section(const CLI::App& command, const std::string& path) {
    std::string roff = ".SS " + in_roff(path) + "\n" + in_roff(command.get_description()) + "\n" +
                       options_of_manual(command) + footer_of(command);
    for (const CLI::App* below : subcommands_of(command))
        roff += manual_section(*below, path + " " + below->get_name());
    return roff;
}

std::string completion_branches(const CLI::App& command, const std::string& path) {
    std::string text = branch_of(command, path);
    for (const CLI::App* below : subcommands_of(command))
        text += completion_branches(*below, path + " " + below->get_name());
    return text;
}

std::string manual_page(const CLI::App& app, const OwnPrograms& programs) {
    std::string roff =
        ".TH TRUESTEP 1 \"\" \"truestep " + report::version() +
        "\"\n.ad l\n.nh\n.SH NAME\ntruestep \\- checks communication\\-efficient optimizers\n.SH SYNOPSIS\n"
        ".B truestep\n.I COMMAND\n[\\fIOPTION\\fR...]\n.SH DESCRIPTION\n" +
        in_roff(app.get_description()) + "\n" + options_of_manual(app) + ".SH COMMANDS\n";
    for (const CLI::App* command : subcommands_of(app))
        roff += programs.contains(command->get_name())
                    ? ask(programs.at(command->get_name()), "--manual-section")
                    : manual_section(*command, "truestep " + command->get_name());
    return roff +
           ".SH EXIT STATUS\n.TP\n0\nall passed\n.TP\n1\na difference, or too little data to prove "
           "anything\n.TP\n2\nbad input or usage\n.TP\n3\nonly under mpirun: a rank failed or hung\n";
}

std::string bash_completion(const CLI::App& app, const OwnPrograms& programs) {
    std::string text = "# bash completion for truestep; made by `truestep completion`.\n"
                       "_truestep_words() {\n"
                       "    case $1 in\n" +
                       branch_of(app, "");
    for (const CLI::App* command : subcommands_of(app))
        text += programs.contains(command->get_name())
                    ? ask(programs.at(command->get_name()), "--completion-branches")
                    : completion_branches(*command, command->get_name());
    return text +
           "        *) return 1 ;;\n"
           "    esac\n"
           "}\n"
           "_truestep() {\n"
           "    local current=${COMP_WORDS[COMP_CWORD]} path= i next\n"
           "    for ((i = 1; i < COMP_CWORD; ++i)); do\n"
           "        next=\"${path:+$path }${COMP_WORDS[i]}\"\n"
           "        if _truestep_words \"$next\" >/dev/null; then path=$next; fi\n"
           "    done\n"
           "    mapfile -t COMPREPLY < <(compgen -W \"$(_truestep_words \"$path\")\" -- \"$current\")\n"
           "}\n"
           "complete -o default -F _truestep truestep\n";
}

} // namespace truestep::gate
