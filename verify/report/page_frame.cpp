// The frame of every page: one file, with its style, icon and origin.
#include "page_rows.hpp"

namespace truestep::report::page {

namespace {

/// The tab's icon: a tick or a cross. It is part of the page, so that no browser requests another
/// file.
std::string icon(Status status) {
    const bool good = status == Status::passed;
    std::string text("data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
                     "%3Ccircle cx='8' cy='8' r='8' fill='%23");
    text += good ? "1a7546" : "b3261e";
    text += "'/%3E%3Cpath d='";
    text += good ? "M4 8.5l3 3 5-6" : "M5 5l6 6M11 5l-6 6";
    text += "' fill='none' stroke='white' stroke-width='2'/%3E%3C/svg%3E";
    return text;
}

/// A word quoted for a shell.
std::string quoted(const std::string& word) {
    constexpr std::string_view harmless =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%";
    if (!word.empty() && word.find_first_not_of(harmless) == std::string::npos)
        return word;
    std::string result = "'";
    for (const char one : word)
        result += one == '\'' ? std::string("'\\''") : std::string(1, one);
    return result + "'";
}

} // namespace

std::string section(const std::string& id, const std::string& heading, const std::string& content) {
    return element("section", element("h2", heading, {{"id", id + "-heading"}}) + content,
                   {{"id", id}, {"aria-labelledby", id + "-heading"}}) +
           "\n";
}

std::string made(const std::vector<ordered_json>& results) {
    std::string html;
    for (const ordered_json& result : results) {
        std::string command;
        for (const ordered_json& word : list(result, "command"))
            if (word.is_string())
                command += (command.empty() ? "" : " ") + quoted(word.get<std::string>());
        std::string facts = fact("seed", text(result, "seed"));
        if (at(result, "seconds").is_number())
            facts += fact("took", duration(number(result, "seconds")));
        if (const ordered_json& environment = at(result, "environment"); environment.is_object())
            for (const auto& [key, value] : environment.items())
                facts += fact(key, plain(value));
        html += element("div.run", (command.empty() ? "" : element("pre", escaped(command))) +
                                       element("dl.environment", facts));
    }
    return element("details", element("summary", "How this was made") + html, {{"id", "made"}}) + "\n";
}

std::string framed(const std::string& title, Status status, const std::string& banner,
                   const std::string& content) {
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
           "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
           escaped(title) + " – truestep</title>\n<link rel=\"icon\" href=\"" + icon(status) +
           "\">\n<style>\n" + style() + "</style>\n</head>\n<body>\n<div class=\"page\">\n" + banner +
           "<main>\n" + content + "</main>\n</div>\n</body>\n</html>\n";
}

} // namespace truestep::report::page
