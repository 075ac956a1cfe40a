// Other values of settings, possible and impossible, chosen from the settings' own list.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace truestep::gate {

/// All settings but `but`.
template <class Settings>
std::vector<std::string> names_of_settings(const Settings& settings,
                                           const std::set<std::string>& but = {}) {
    std::vector<std::string> names;
    visit_settings(settings, [&](const std::string& name, const auto&, const auto&...) {
        if (!but.contains(name))
            names.push_back(name);
    });
    return names;
}

/// Gives the setting another value, of a number that is no whole one the next (of epsilon, the next of
/// fp32): what rounds or cuts it, or writes few digits, must not take the two for the same.
template <class Settings>
void change_setting(Settings& settings, const std::string& changed) {
    visit_settings(settings, [&](const std::string& name, auto& value, const auto&...) {
        using Value = std::remove_reference_t<decltype(value)>;
        if (name != changed)
            return;
        if constexpr (std::is_enum_v<Value>)
            value = static_cast<Value>(static_cast<int>(value) == 0 ? 1 : 0);
        else if constexpr (std::floating_point<Value>)
            value = name == "epsilon"
                        ? static_cast<Value>(std::nextafter(static_cast<float>(value),
                                                            std::numeric_limits<float>::infinity()))
                    : value == 0 ? Value(0.5)
                                 : std::nextafter(value, value < 0.5 ? Value(1) : Value(0));
        else if constexpr (std::same_as<Value, bool>)
            value = !value;
        else if constexpr (std::same_as<Value, std::uint64_t>) // of a seed both halves count
            value = value % 2 == 0 ? value + 1 : value + (Value{1} << 32U);
        else
            value = value + Value{1};
    });
}

/// The same for one that `number` chooses among all settings `but` these. Returns its name.
template <class Settings>
std::string change_one_setting(Settings& settings, std::size_t number,
                               const std::set<std::string>& but = {}) {
    const std::vector<std::string> names = names_of_settings(settings, but);
    change_setting(settings, names[number % names.size()]);
    return names[number % names.size()];
}

/// Returns what a setting of this name can be in no system. It is spelled out, because the limits that
/// systems declare are themselves judged.
inline std::vector<double> impossible_values(const std::string& name, bool whole) {
    if (name == "codewords") // 0 of them mean no quantization
        return {-1.0, 65'537.0};
    if (name.ends_with("iterations") || name == "rounds")
        return {-1.0, 0.0, 1001.0};
    if (name == "width")
        return {-1.0, 0.0, 0x1p24 + 1};
    if (whole)
        return {-1.0, 0.0};
    using Limits = std::numeric_limits<double>;
    std::vector<double> all{Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
    if (name.size() > 1) // coefficients of polynomials may be negative
        all.push_back(-0.5);
    if (name.starts_with("beta") || name == "momentum" || name == "gamma")
        all.push_back(1.0);
    if (name == "epsilon") { // 1e-46 is 0 as an fp32 number
        all.push_back(0.0);
        all.push_back(1e-46);
    }
    return all;
}

/// Returns the settings with each such value in one of their numbers, which `number` chooses, and its name.
template <class Settings>
std::pair<std::string, std::vector<Settings>> impossible_settings(const Settings& settings,
                                                                  std::uint64_t number) {
    std::vector<std::pair<std::string, bool>> names; // and whether it is a whole number
    visit_settings(settings, [&]<class Value>(const std::string& name, const Value&, const auto&...) {
        if (std::is_signed_v<Value>)
            names.emplace_back(name, std::integral<Value>);
    });
    const std::pair<std::string, bool> chosen = names[number % names.size()];
    std::vector<Settings> all;
    for (const double impossible : impossible_values(chosen.first, chosen.second))
        visit_settings(all.emplace_back(settings),
                       [&]<class Value>(const std::string& name, Value& value, const auto&...) {
                           if constexpr (std::is_signed_v<Value>)
                               if (name == chosen.first)
                                   value = static_cast<Value>(impossible);
                       });
    return {chosen.first, all};
}

} // namespace truestep::gate
