#include "commands.hpp"

#include <cstdio>
#include <exception>
#include <fstream>
#include <new>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>
#include <scape/report/environment.hpp>
#include <scape/verify/trace.hpp>

namespace scape::tool {

std::string shell_word(const std::string& text) {
    const std::string plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-";
    if (!text.empty() && text.find_first_not_of(plain) == std::string::npos)
        return text;
    std::string word = "'";
    for (const char letter : text)
        word += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
    return word + "'";
}

void write_json(const std::string& path, const nlohmann::ordered_json& json) {
    std::ofstream file(path);
    // A JSON text has to be UTF-8, whatever a path or a name in a trace holds.
    file << json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
    file.close();
    if (!file)
        throw Error(path + ": the result could not be written; check the folder and the space on the disk");
}

namespace {

std::string first_line(const std::string& text) {
    return text.substr(0, text.find('\n'));
}

int run(int count, char** values) {
    const std::vector<std::string> arguments(values, values + count);
    int status = bad_input;
    CLI::App app("Finds out whether an implementation of the SCAPE or AdamS optimizer is right.", "scape");
    app.set_version_flag("--version", "scape " + report::version());
    app.require_subcommand(1);
    app.footer("'scape COMMAND --help' tells about one command, with examples.");
    add_verify(app, status, arguments);
    add_check(app, status, arguments);
    add_planted(app, status, arguments);
    add_report(app, status);
    add_record(app, status, arguments);
    add_diff(app, status);
    add_model(app, status);
    add_info(app, status);
    try {
        app.parse(count, values);
    } catch (const CLI::Success& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        std::fprintf(stderr, "scape: %s (see 'scape --help' and 'scape COMMAND --help')\n",
                     first_line(error.what()).c_str());
        return bad_input;
    } catch (const Error& error) {
        std::fprintf(stderr, "scape: %s\n", one_line(error.what()).c_str());
        return bad_input;
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "scape: not enough memory for this problem; make it smaller\n");
        return bad_input;
    }
    return status;
}

} // namespace

} // namespace scape::tool

int main(int count, char** values) {
    try {
        return scape::tool::run(count, values);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "scape: unexpected: %s; please report it with the command\n", error.what());
        return scape::tool::bad_input;
    }
}
