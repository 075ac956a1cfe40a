// Parses the settings of a synthetic run from its options, and refuses unknown ones.
#include <truestep/verify/traces.hpp>

#include <cmath>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify {

namespace {

template <class Number>
Number parsed(const std::string& option, const std::string& text, const std::string& wanted) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("--" + option + " is '" + text + "'; it must be " + wanted);
    return *value;
}

} // namespace

Settings::Settings(const std::vector<Setting>& all, Given given, const std::string& whose)
    : given_(std::move(given)) {
    std::string names;
    for (const Setting& setting : all) {
        defaults_[setting.option] = setting.value;
        names += (names.empty() ? "--" : ", --") + setting.option;
    }
    for (const auto& [option, values] : given_)
        if (!defaults_.contains(option))
            throw Error("--" + option + " is not a setting of " + whose + "; use one of " + names);
}

std::string Settings::text(const std::string& option) const {
    const auto found = given_.find(option);
    return found == given_.end() ? defaults_.at(option) : found->second.back();
}

std::vector<std::string> Settings::texts(const std::string& option) const {
    const auto found = given_.find(option);
    return found == given_.end() ? std::vector<std::string>{} : found->second;
}

double Settings::number(const std::string& option) const {
    const double value = parsed<double>(option, text(option), "a number");
    if (!std::isfinite(value))
        throw Error("--" + option + " is " + text(option) + "; it must be finite");
    return value;
}

Index Settings::integer(const std::string& option) const {
    return parsed<Index>(option, text(option), "a whole number");
}

std::uint64_t Settings::seed(const std::string& option) const {
    return parsed<std::uint64_t>(option, text(option), "a whole number from 0 to 2^64 - 1");
}

bool Settings::truth(const std::string& option) const {
    const std::string given = text(option);
    if (given != "yes" && given != "no")
        throw Error("--" + option + " is '" + given + "'; it must be yes or no");
    return given == "yes";
}

} // namespace truestep::verify
