// Finds a text by its name: a file, or "synthetic" with changed settings.
#include <array>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/training/synthetic.hpp>

namespace truestep::training {

namespace {

constexpr std::string_view made_up = "synthetic";
constexpr double learned_share = 0.9; ///< of a file

constexpr std::array<std::pair<std::string_view, std::size_t SyntheticSettings::*>, 7> sizes{{
    {"symbols", &SyntheticSettings::symbols},
    {"kinds", &SyntheticSettings::kinds},
    {"successors", &SyntheticSettings::successors},
    {"nearest", &SyntheticSettings::nearest},
    {"farthest", &SyntheticSettings::farthest},
    {"learned", &SyntheticSettings::learned},
    {"measured", &SyntheticSettings::measured},
}};
constexpr std::array<std::pair<std::string_view, std::uint32_t SyntheticSettings::*>, 2> chances{{
    {"begins", &SyntheticSettings::begins},
    {"ends", &SyntheticSettings::ends},
}};

template <class Value>
bool read(std::string_view text, Value& value) {
    const auto parsed = parse_number<Value>(text);
    value = parsed.value_or(value);
    return parsed.has_value();
}

/// Applies a setting such as "kinds=4".
bool set(SyntheticSettings& settings, std::string_view word) {
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos)
        return read(word, settings.seed);
    const std::string_view value = word.substr(equals + 1);
    for (const auto& [name, member] : sizes)
        if (name == word.substr(0, equals))
            return read(value, settings.*member);
    for (const auto& [name, member] : chances)
        if (name == word.substr(0, equals))
            return read(value, settings.*member);
    return false;
}

Text synthetic_named(const std::string& name) {
    SyntheticSettings settings;
    std::string_view rest = std::string_view(name).substr(made_up.size());
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::string_view word = rest.substr(0, rest.find(','));
        if (!set(settings, word)) {
            std::string known;
            for (const auto& [size, member] : sizes)
                known += ", " + std::string(size);
            throw Error("--text " + one_line(name) + ": '" + one_line(std::string(word)) +
                        "' is neither a seed nor a setting of it; give synthetic or synthetic:NUMBER, then "
                        "SETTING=NUMBER behind commas, of begins, ends" +
                        known + " (a file of that name is ./synthetic)");
        }
        rest.remove_prefix(word.size());
    }
    return synthetic_text(settings);
}

} // namespace

Text text_named(const std::string& name) {
    if (!name.starts_with(made_up) || (name.size() > made_up.size() && name[made_up.size()] != ':'))
        return text_of_file(name, learned_share);
    Text text = synthetic_named(name);
    if (const std::size_t comma = name.find(','); comma != std::string::npos)
        text.name += ", " + name.substr(comma + 1);
    return text;
}

} // namespace truestep::training
