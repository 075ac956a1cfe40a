// Writes result files of `check` and `planted` as JUnit suites.
#include <truestep/report/junit.hpp>

#include <utility>

#include "junit_elements.hpp"
#include "page_rows.hpp"

namespace truestep::report {

namespace {

using namespace page; // the words and the escaping are shared
using junit::attribute;
using junit::Counts;
using Pair = std::pair<std::string, std::string>;

std::string in_dots(const std::vector<std::string>& parts) {
    std::string result;
    for (const std::string& part : parts)
        if (!part.empty())
            result += (result.empty() ? "" : ".") + part;
    return result;
}

std::string settings(const ordered_json& row, const std::vector<std::string>& keys) {
    std::string result;
    for (const std::string& key : keys)
        if (const std::string value = text(row, key); !value.empty())
            result += (result.empty() ? "" : " ") + key + "=" + value;
    return result;
}

/// The attributes classname and name.
Pair names(const Entry& entry) {
    const ordered_json& row = *entry.json;
    const std::string implementation = text(row, "implementation");
    const std::string communicator = text(row, "communicator");
    switch (entry.kind) {
    case Kind::matrix:
        return {in_dots({"matrix", implementation, communicator, text(row, "level")}),
                settings(row, page::settings_of(row))};
    case Kind::property:
        return {in_dots({"properties", implementation, communicator}),
                text(row, "number") + " " + text(row, "property")};
    case Kind::planted:
        break;
    }
    return {"planted", text(row, "number") + " " + text(row, "name")};
}

std::string failure_text(const Entry& entry) {
    const ordered_json& failure = at(*entry.json, "failure");
    const ordered_json& first = at(failure, "first");
    std::string result;
    const auto line = [&](const std::string& what, const std::string& value) {
        if (!value.empty())
            result += what + value + "\n";
    };
    const auto with_bits = [&](const std::string& key) {
        const std::string bits = text(first, key + "_bits");
        return text(first, key) + (bits.empty() ? "" : " (" + bits + ")");
    };
    if (explanation(entry) != reason(entry))
        line("", explanation(entry));
    if (first.is_object()) {
        line("first divergence: ", place(first));
        line("expected: ", with_bits("expected"));
        line("  actual: ", with_bits("actual"));
    }
    line("shrunk case: ", text(failure, "case"));
    line("repeat with: ", text(*entry.json, "command"));
    line("saved trace: ", text(failure, "trace"));
    return result;
}

std::string failure_message(const Entry& entry) {
    const std::string status = entry.kind == Kind::planted ? "NOT CAUGHT" : name(entry.status);
    const std::string why = reason(entry);
    return status + (why.empty() ? "" : ": " + why);
}

std::string test_case(const Entry& entry, junit::Cases& cases) {
    std::string inside;
    if (entry.status == Status::skipped)
        inside = junit::outcome("skipped", text(*entry.json, "reason"));
    else if (entry.status != Status::passed)
        inside =
            junit::outcome("failure", failure_message(entry), class_of(entry.status), failure_text(entry));
    const auto [class_name, test_name] = names(entry);
    return cases.element(class_name, test_name, number(*entry.json, "seconds"), inside);
}

Counts counts_of_suite(const std::vector<Entry>& entries) {
    Counts result;
    for (const Entry& entry : entries) {
        ++result.tests;
        result.failures += is_bad(entry.status) ? 1U : 0U;
        result.skipped += entry.status == Status::skipped ? 1U : 0U;
        result.seconds += number(*entry.json, "seconds");
    }
    return result;
}

} // namespace

std::string junit_xml(const std::vector<nlohmann::ordered_json>& results) {
    const GroupedResults all = gather(results);
    const std::string properties = junit::properties(results);
    const std::pair<const char*, const std::vector<Entry>*> suites[] = {
        {"matrix", &all.matrix}, {"properties", &all.properties}, {"planted", &all.planted}};
    junit::Cases cases;
    Counts sum;
    std::string xml;
    for (const auto& [suite, entries] : suites) {
        const Counts some = counts_of_suite(*entries);
        sum.add(some);
        xml += "  <testsuite" + attribute("name", suite) + some.attributes() + ">\n" + properties;
        for (const Entry& entry : *entries)
            xml += test_case(entry, cases);
        xml += "  </testsuite>\n";
    }
    return junit::document(sum, xml);
}

} // namespace truestep::report
