#pragma once

#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

/// Settings as text, of any system: key=value, with white space between.
namespace truestep::abi {

template <class Number>
[[nodiscard]] Number number(const std::string& key, std::string_view text) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("settings: " + key + " is '" + std::string(text) + "'; give a number that it can be");
    return *value;
}

inline void check_threads(int threads) {
    if (threads < 1)
        throw Error("settings: threads is " + std::to_string(threads) + "; at least 1 is needed");
}

/// By key, what takes its value.
template <class Settings>
using Setters = std::map<std::string, std::function<void(Settings&, const std::string& value)>>;

/// Throws truestep::Error for a key that is unknown or given twice.
template <class Settings>
void read_settings(const std::string& text, const Setters<Settings>& setters, Settings& settings) {
    std::set<std::string> seen;
    std::istringstream words(text);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        const std::string key = word.substr(0, equals);
        const auto setter = setters.find(key);
        if (equals == std::string::npos || setter == setters.end()) {
            std::string known;
            for (const auto& [name, unused] : setters)
                known += (known.empty() ? "" : ", ") + name;
            throw Error("settings: '" + word + "' is no setting; give key=value with one of " + known);
        }
        if (!seen.insert(key).second)
            throw Error("settings: " + key + " is given twice; give it once");
        setter->second(settings, word.substr(equals + 1));
    }
}

} // namespace truestep::abi
