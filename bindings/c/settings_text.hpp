// Reads settings from text of key=value words, and refuses unknown and repeated keys.
#pragma once

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::abi {

template <class Number>
[[nodiscard]] Number number(const std::string& key, std::string_view text) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("settings: " + key + " is '" + std::string(text) + "'; give a number that it can be");
    return *value;
}

[[nodiscard]] inline bool truth(const std::string& key, const std::string& text) {
    if (text != "yes" && text != "no")
        throw Error("settings: " + key + " is '" + text + "'; give yes or no");
    return text == "yes";
}

[[nodiscard]] inline std::vector<std::string> split(const std::string& text, char between) {
    std::vector<std::string> parts;
    std::istringstream all(text);
    for (std::string part; std::getline(all, part, between);)
        parts.push_back(part);
    return parts;
}

/// Settings of any system as text: key=value, separated by white space. Throws truestep::Error.
class SettingsText {
  public:
    explicit SettingsText(const char* text) {
        std::istringstream words(text == nullptr ? "" : text);
        for (std::string word; words >> word; words_.push_back(word))
            if (const std::size_t equals = word.find('='); equals != std::string::npos)
                if (!given_.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
                    throw Error("settings: " + word.substr(0, equals) + " is given twice; give it once");
    }

    /// Reads a key; its value stays unchanged if the text lacks the key.
    template <class Value, class Parse>
    void read(const std::string& key, Value& to, const Parse& parse) {
        known_.insert(key);
        if (const auto found = given_.find(key); found != given_.end())
            to = parse(found->second);
    }
    template <class Value>
    void read(const std::string& key, Value& to) {
        if constexpr (std::is_same_v<Value, bool>)
            read(key, to, [&key](const std::string& text) { return truth(key, text); });
        else if constexpr (std::is_arithmetic_v<Value>)
            read(key, to, [&key](const std::string& text) { return number<Value>(key, text); });
        else
            read(key, to, problem::parse<Value>);
    }

    /// Throws if the text has a key that was not read.
    void finish() const {
        std::string known;
        for (const std::string& key : known_)
            known += (known.empty() ? "" : ", ") + key;
        for (const std::string& word : words_)
            if (word.find('=') == std::string::npos || !known_.contains(word.substr(0, word.find('='))))
                throw Error("settings: '" + word + "' is not a setting; give key=value with one of " +
                            known);
    }

  private:
    std::vector<std::string> words_;
    std::map<std::string, std::string> given_;
    std::set<std::string> known_;
};

} // namespace truestep::abi
