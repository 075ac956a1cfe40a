// Strict parsing of JSON configs, and writing them.
#pragma once

#include <concepts>
#include <set>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/layout.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::trace {

/// The allowed range of a whole number; both ends are included.
struct Range {
    problem::Index least = 0;
    problem::Index most = 0;
};

/// Reads a JSON object: every key must be known, required ones present, values of the right kind.
class ObjectReader {
  public:
    /// `what` begins an error's line. The object has to outlive the reader; a temporary one does not.
    ObjectReader(const nlohmann::json& object, std::string what);
    ObjectReader(nlohmann::json&&, std::string) = delete;

    const nlohmann::json& required(const std::string& key);
    double number(const std::string& key);
    double number_or(const std::string& key, double otherwise);
    problem::Index integer(const std::string& key);
    problem::Index integer_or(const std::string& key, problem::Index otherwise);
    problem::Index count(const std::string& key); ///< not negative
    problem::Index within(const std::string& key, Range range);
    std::string text(const std::string& key);
    std::string text_or(const std::string& key, const std::string& otherwise);
    bool truth(const std::string& key);
    const nlohmann::json& list(const std::string& key);

    template <class Value>
    void read(const std::string& key, Value& value, Range range) {
        value = static_cast<Value>(within(key, range));
    }
    /// The value's type decides how its text is read; `parse` reads a word.
    template <class Value, class... Parse>
    void read(const std::string& key, Value& value, const Parse&... parse) {
        if constexpr (sizeof...(parse) > 0)
            ((value = parse(text(key))), ...);
        else if constexpr (std::same_as<Value, bool>)
            value = truth(key);
        else if constexpr (std::floating_point<Value>)
            value = number(key);
        else
            value = static_cast<Value>(std::unsigned_integral<Value> ? count(key) : integer(key));
    }

    /// Refuses a key that was never asked for: it is most likely a misspelt setting.
    void finish() const;

  private:
    [[nodiscard]] Error wrong(const std::string& key, const std::string& wanted) const;

    const nlohmann::json& object_;
    std::string what_;
    std::set<std::string> known_;
};

/// Writes a setting; a word is written by its name.
template <class Value>
void write_setting(nlohmann::ordered_json& json, const std::string& key, const Value& value) {
    if constexpr (std::is_enum_v<Value>)
        json[key] = name(value);
    else
        json[key] = value;
}

/// Parses untrusted text: no key twice, no number that a double cannot hold.
[[nodiscard]] nlohmann::json parse_json(const std::string& text, const std::string& what);

/// Returns the result of `parse` for such a text. Each error is one line that begins with `what`.
template <class Parse>
[[nodiscard]] auto parse_config(const std::string& text, const std::string& what, const Parse& parse) {
    try {
        return parse(parse_json(text, what));
    } catch (const Error& error) {
        const std::string message = one_line(error.what());
        throw Error(message.starts_with(what) ? message : what + ": " + message);
    }
}

/// Parses `tensors` of a config: [{name, size, always_dense}], with param_group where it is not 0.
[[nodiscard]] problem::Layout parse_layout(const nlohmann::json& list, const std::string& what);
[[nodiscard]] nlohmann::ordered_json layout_json(const problem::Layout& layout);

} // namespace truestep::trace
