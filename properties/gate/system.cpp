// Looks up systems, properties and options by name, and why a property does not apply.
#include <truestep/gate/system.hpp>

#include <algorithm>
#include <utility>

#include <truestep/problem/error.hpp>

namespace truestep::gate {

namespace {

template <class Things>
std::string names(const Things& things) {
    std::string all;
    for (const auto& thing : things)
        all += (all.empty() ? "" : ", ") + thing.name;
    return all;
}

} // namespace

void Counts::add(const Counts& other) {
    compared += other.compared;
    wrong += other.wrong;
    greatest_ulps = std::max(greatest_ulps, other.greatest_ulps);
    share_of_limit = std::max(share_of_limit, other.share_of_limit);
}

std::vector<Property> by_number(const std::vector<std::vector<Property>>& families) {
    std::vector<Property> all;
    for (const std::vector<Property>& family : families)
        all.insert(all.end(), family.begin(), family.end());
    std::ranges::stable_sort(all, {},
                             [](const Property& one) { return std::pair(one.number == 0, one.number); });
    return all;
}

const Property& System::property(const std::string& named) const {
    for (const Property& property : properties)
        if (property.name == named)
            return property;
    throw Error("there is no property '" + named + "'; there are " + names(properties));
}

std::string System::option_of(const std::string& setting) const {
    const auto found = options_of_settings.find(setting);
    return found == options_of_settings.end() ? setting : found->second;
}

std::string name_of_planted(int number, std::size_t known_bugs) {
    if (number < 0 || static_cast<std::size_t>(number) > known_bugs)
        throw Error("known bug " + std::to_string(number) + " does not exist; see truestep planted --list");
    return number == 0 ? "plain" : "planted-" + std::to_string(number);
}

const System& find_system(const std::vector<System>& systems, const std::string& name) {
    for (const System& system : systems)
        if (system.name == name)
            return system;
    throw Error("--system is '" + name + "'; there are " + names(systems));
}

Line parsed_case(const System& system, const std::vector<System>& all, const Line& line) {
    try {
        return system.parsed(line);
    } catch (const Error&) {
        for (const System& other : all) {
            if (other.name == system.name)
                continue;
            try {
                static_cast<void>(other.parsed(line));
            } catch (const Error&) {
                continue;
            }
            throw Error("--case is a case of the system " + other.name + ", and this is " + system.name +
                        "; name it behind check: check " + other.name + " ...");
        }
        throw;
    }
}

std::string why_not(const Property& property, const Implementation& implementation,
                    const Unsupported& unsupported) {
    if (std::string why = property.skipped(implementation); !why.empty())
        return why;
    for (const std::string& key : {property.name, property.name.substr(0, property.name.find('.'))})
        if (const auto found = unsupported.find(key); found != unsupported.end())
            return found->second;
    return {};
}

} // namespace truestep::gate
