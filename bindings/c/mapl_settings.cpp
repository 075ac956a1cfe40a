// Parses the text of a MAPL boundary's settings.
#include "mapl_settings.hpp"

#include "settings_text.hpp"

namespace truestep::abi {

namespace {

bool is_reference(const std::string& text) {
    if (text != "optimized" && text != "reference")
        throw Error("settings: arithmetic is '" + text + "'; give optimized or reference");
    return text == "reference";
}

} // namespace

MaplSettings parse_mapl_settings(const char* text) {
    MaplSettings settings;
    SettingsText given(text);
    problem::mapl::visit_settings(
        settings.boundary,
        [&given](const char* key, auto& value, const auto&... parse) { given.read(key, value, parse...); });
    given.read("arithmetic", settings.reference, is_reference);
    given.finish();
    problem::mapl::check(settings.boundary);
    return settings;
}

} // namespace truestep::abi
