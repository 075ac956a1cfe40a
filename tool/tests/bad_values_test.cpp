// Tests bad values of each setting of each system, as the lists of settings themselves name them: in a
// case, in a trace's config and as an option of `record`. Each is one line that names the setting.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/trace/reader.hpp>

#include "systems.hpp"

namespace truestep::tool {
namespace {

using Json = nlohmann::ordered_json;

/// The line of the error, or nothing if it is accepted.
std::optional<std::string> refusal(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    }
    return std::nullopt;
}

/// Options have dashes where keys of files have underscores.
std::string dashed(std::string text) {
    std::ranges::replace(text, '_', '-');
    return text;
}

/// What the system says to a bad value has to be one line that names the setting.
void expect_named(const std::optional<std::string>& line, const std::string& setting,
                  const std::string& where, bool may_be_accepted = false) {
    if (!line && may_be_accepted)
        return;
    EXPECT_TRUE(line) << where << " is accepted";
    EXPECT_NE(dashed(line.value_or(setting)).find(dashed(setting)), std::string::npos)
        << where << " does not name it: " << *line;
    EXPECT_EQ(line.value_or("").find('\n'), std::string::npos)
        << where << " takes several lines: " << *line;
}

/// Lists that may be empty.
const std::set<std::string> lists{"groups", "sample", "param-groups"};
/// No other setting takes these.
const std::vector<std::string> never{"nan", "word", "", "1x"};
/// Some take these, and end as they should.
const std::vector<std::string> sometimes{"0", "-0"};
const std::vector<std::string> beyond{"-1", "inf", "1e300", "99999999999999999999"};
/// The only settings of SCAPE that take these, and of no other system any: as large as a double, and a
/// rank that is nobody.
const std::set<std::string> accepted{
    "epsilon=1e300", "epsilon=99999999999999999999", "decay=1e300", "decay=99999999999999999999",
    "clip=1e300",    "clip=99999999999999999999",    "silent=-1"};

/// The keys that the system lists when it is given another one.
std::vector<std::string> keys_of_cases(const gate::System& system) {
    const std::string line =
        refusal([&] { static_cast<void>(system.parsed("no_such_key=1")); }).value_or("");
    std::vector<std::string> keys;
    std::string rest = line.substr(line.rfind(": ") + 1);
    for (char& letter : rest)
        if (letter == ',')
            letter = ' ';
    std::istringstream words(rest);
    for (std::string word; words >> word;)
        keys.push_back(word);
    return keys;
}

TEST(BadValues, OfACaseAreNamed) {
    for (const gate::System& system : all_systems()) {
        const std::vector<std::string> keys = keys_of_cases(system);
        EXPECT_GE(keys.size(), 5U) << system.name;
        for (const std::string& key : keys) {
            const auto said = [&](const std::string& text) {
                return refusal([&] { static_cast<void>(system.parsed(text)); });
            };
            for (const std::string& value : never)
                expect_named(said(key + "=" + value), key, system.name + " case " + key + "=" + value,
                             value.empty() && lists.contains(key));
            for (const std::string& value : sometimes)
                expect_named(said(key + "=" + value), key, system.name + " case " + key + "=" + value,
                             true);
            for (const std::string& value : beyond) {
                const std::string setting = key + "=" + value;
                const bool is_accepted = system.name == "scape" && accepted.contains(setting);
                EXPECT_EQ(!said(setting), is_accepted) << system.name << " case " << setting;
                expect_named(said(setting), key, system.name + " case " + setting, is_accepted);
            }
            expect_named(said(key), key, system.name + " case " + key);
            expect_named(said(key + "=1," + key + "=1"), key, system.name + " case, twice " + key);
        }
    }
}

/// A run as `record` makes it by default, with one setting changed.
void record(const gate::System& system, const std::filesystem::path& path,
            const verify::Settings::Given& given) {
    system.traces.record({.output = path,
                          .settings = verify::Settings(system.traces.settings, given, system.name),
                          .source = "test"});
}

std::filesystem::path trace_path() {
    return std::filesystem::path(testing::TempDir()) /
           (std::to_string(getpid()) + "_bad_values.safetensors");
}

TEST(BadValues, OfRecordAreNamed) {
    for (const gate::System& system : all_systems())
        for (const verify::Setting& setting : system.traces.settings)
            for (const std::string& value : never)
                expect_named(refusal([&] {
                                 record(system, trace_path(), {{setting.option, {value}}});
                             }),
                             setting.option, system.name + " record --" + setting.option + " " + value,
                             value.empty() && lists.contains(setting.option));
}

/// Visits each value of a config, with the path to it.
void visit(Json& value, const std::function<void(Json& object, const std::string& key)>& each) {
    if (value.is_object()) {
        std::vector<std::string> keys;
        for (const auto& item : value.items())
            keys.push_back(item.key());
        for (const std::string& key : keys) {
            each(value, key);
            visit(value[key], each);
        }
    } else if (value.is_array()) {
        for (Json& item : value)
            visit(item, each);
    }
}

TEST(BadValues, OfATracesConfigAreNamed) {
    for (const gate::System& system : all_systems()) {
        if (system.traces.algorithms.empty())
            continue;
        record(system, trace_path(), {});
        const std::string good = storage::SafetensorsFile(trace_path()).metadata().at("config");
        std::filesystem::remove(trace_path());
        Json config = Json::parse(good);
        const auto said = [&](const std::string& text) {
            return refusal([&] { static_cast<void>(system.traces.schema(text, "config")); });
        };
        ASSERT_FALSE(said(good)) << *said(good);
        int tried = 0;
        visit(config, [&](Json& object, const std::string& key) {
            const Json before = object[key];
            // What a size or a list makes impossible may be the fault of others.
            const std::string named = before.is_array() || key == "size" ? "" : key;
            const auto with = [&](const std::string& raw, bool may_be_accepted = false) {
                object[key] = "@@";
                std::string text = config.dump();
                text.replace(text.find("\"@@\""), 4, raw);
                object[key] = before;
                expect_named(said(text), may_be_accepted ? named : key,
                             system.name + " config " + key + " " + raw, may_be_accepted);
                ++tried;
            };
            for (const char* raw : {"null", "{}", "NaN", "1e999", "-1e999"})
                with(raw);
            with(before.is_string() ? "5" : "\"word\"");
            with(before.is_boolean() ? "1" : "true");
            with(before.dump() + ",\"" + key + "\":" + before.dump());
            for (const char* raw :
                 {"-1", "0", "0.5", "1e300", "99999999999999999999", "[]", "[-1]", "\"\""})
                with(raw, true);
            object.erase(key);
            expect_named(said(config.dump()), key, system.name + " config without " + key, true);
            // Back in its place: the order of keys has no meaning.
            object[key] = before;
        });
        EXPECT_GE(tried, 100) << system.name;
    }
}

} // namespace
} // namespace truestep::tool
