// Another value of one setting, chosen from the settings' own list.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace truestep::gate {

/// Gives one setting another value, which need not be possible, and returns its name. `number` chooses
/// among all settings `but` these.
template <class Settings>
std::string change_one_setting(Settings& settings, std::size_t number,
                               const std::set<std::string>& but = {}) {
    std::vector<std::string> names;
    visit_settings(settings, [&](const std::string& name, const auto&, const auto&...) {
        if (!but.contains(name))
            names.push_back(name);
    });
    const std::string& changed = names[number % names.size()];
    visit_settings(settings, [&](const std::string& name, auto& value, const auto&...) {
        using Value = std::remove_reference_t<decltype(value)>;
        if (name != changed)
            return;
        if constexpr (std::is_same_v<Value, bool>)
            value = !value;
        else if constexpr (std::is_enum_v<Value>)
            value = static_cast<Value>(value == Value{} ? 1 : 0);
        else
            value = value + Value{1};
    });
    return changed;
}

} // namespace truestep::gate
