// Writes the attributes, counts, properties and document frame that JUnit files share.
#include "junit_elements.hpp"

#include <algorithm>
#include <utility>

#include "page_text.hpp"

namespace truestep::report::junit {

namespace {

using namespace page; // the words and the escaping are shared
using Property = std::pair<std::string, std::string>;

/// Each key and value once, in order. Several files on one machine agree in most of them.
std::vector<Property> properties_of(const std::vector<ordered_json>& results) {
    std::vector<Property> all;
    const auto add = [&](const std::string& key, const std::string& value) {
        if (!value.empty() && std::find(all.begin(), all.end(), Property(key, value)) == all.end())
            all.emplace_back(key, value);
    };
    for (const ordered_json& result : results) {
        std::string command;
        for (const ordered_json& word : list(result, "command"))
            if (word.is_string())
                command += (command.empty() ? "" : " ") + word.get<std::string>();
        add("command", command);
        add("seed", text(result, "seed"));
        if (const ordered_json& found = at(result, "environment"); found.is_object())
            for (const auto& [key, value] : found.items())
                add(key, text(found, key));
    }
    return all;
}

std::string seconds_text(double seconds) {
    return fixed(std::min(std::max(seconds, 0.0), 1e12), 6);
}

} // namespace

std::string attribute(const std::string& name, const std::string& value) {
    std::string result = " " + name + "=\"";
    for (const char one : escaped(value))
        result += one == '\n' ? "&#10;" : one == '\t' ? "&#9;" : std::string(1, one);
    return result + "\"";
}

std::string outcome(const std::string& element, const std::string& message, const std::string& type,
                    const std::string& details) {
    return "      <" + element + attribute("message", message) +
           (type.empty() ? "" : attribute("type", type)) + ">" +
           escaped(message + (details.empty() ? "" : "\n" + details)) + "</" + element + ">\n";
}

std::string Cases::element(const std::string& class_name, const std::string& name, double seconds,
                           const std::string& inside) {
    const std::size_t number = ++seen_[{class_name, name}];
    return "    <testcase" + attribute("classname", class_name) +
           attribute("name", number == 1 ? name : name + " (" + std::to_string(number) + ")") +
           attribute("time", seconds_text(seconds)) +
           (inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n");
}

void Counts::add(const Counts& other) {
    tests += other.tests;
    failures += other.failures;
    errors += other.errors;
    skipped += other.skipped;
    seconds += other.seconds;
}

std::string Counts::attributes() const {
    return attribute("tests", std::to_string(tests)) + attribute("failures", std::to_string(failures)) +
           attribute("errors", std::to_string(errors)) + attribute("skipped", std::to_string(skipped)) +
           attribute("time", seconds_text(seconds));
}

std::string properties(const std::vector<nlohmann::ordered_json>& results) {
    std::string xml = "    <properties>\n";
    for (const auto& [key, value] : properties_of(results))
        xml += "      <property" + attribute("name", key) + attribute("value", value) + "/>\n";
    return xml + "    </properties>\n";
}

std::string document(const Counts& sum, const std::string& suites) {
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites" + attribute("name", "truestep") +
           sum.attributes() + ">\n" + suites + "</testsuites>\n";
}

} // namespace truestep::report::junit
