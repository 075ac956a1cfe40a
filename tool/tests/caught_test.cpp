// Tests that properties still catch what they caught. fixtures/caught.txt has a line for each known
// bug: the properties that catch it, each with the number of the drawn case (of seed 1) that shows it.
// TRUESTEP_CAUGHT=FILE writes such a file anew: for a new bug or property, or where other cases are drawn.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/gate/group.hpp>
#include <truestep/gate/search.hpp>

#include "systems.hpp"

namespace truestep::tool {
namespace {

/// A known bug of a system.
using Bug = std::pair<std::string, int>;
/// The case that shows it to each property.
using Catches = std::map<std::string, int>;

/// The number of the first of the drawn cases from `first` to `last` in which the property does not hold.
std::optional<int> caught_in(const gate::System& system, const gate::Implementation& implementation,
                             const gate::Property& property, int first, int last) {
    gate::SearchOptions options;
    options.unsupported = implementation.unsupported();
    options.cases = last + 1;
    options.most_evaluations = 0;
    int number = -1;
    options.judge = [&](const gate::Implementation& tested, const gate::Property& judges,
                        const gate::Line& line) {
        return ++number < first ? gate::CaseJudgement() : gate::judged(tested, judges, line);
    };
    if (search(system, implementation, property, options).counterexample)
        return number;
    return std::nullopt;
}

/// The bugs that one processor shows, with their implementations.
std::vector<std::pair<Bug, std::shared_ptr<const gate::Implementation>>>
bugs_of(const gate::System& system) {
    const auto group = gate::make_thread_group(std::chrono::seconds(3));
    std::vector<std::pair<Bug, std::shared_ptr<const gate::Implementation>>> bugs;
    for (const gate::KnownBug& bug : system.known_bugs)
        if (auto implementation = system.planted(bug.number, group); implementation->unavailable().empty())
            bugs.emplace_back(Bug(system.name, bug.number), std::move(implementation));
    return bugs;
}

std::map<Bug, Catches> read(const std::string& path) {
    std::map<Bug, Catches> all;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        Bug bug;
        words >> bug.first >> bug.second;
        Catches& catches = all[bug];
        for (std::string word; words >> word;)
            catches[word.substr(0, word.find(':'))] = std::stoi(word.substr(word.find(':') + 1));
    }
    return all;
}

/// Returns what all properties catch in the first few cases. What is caught by timing, by a rank that never
/// comes, or by memory beyond its own (scape's 57), is not taken.
Catches catches_of(const gate::System& system, const gate::Implementation& implementation) {
    constexpr int few = 2;
    constexpr int many = 100;
    Catches catches;
    int slow = 0;
    for (const int cases : {few, many})
        for (const gate::Property& property : system.properties) {
            if (slow == 3 || (cases == many && !catches.empty()) ||
                !why_not(property, implementation, implementation.unsupported()).empty())
                continue;
            const std::optional<int> number = caught_in(system, implementation, property, 0, cases - 1);
            if (!number)
                continue;
            const auto begin = std::chrono::steady_clock::now();
            const bool again = caught_in(system, implementation, property, *number, *number) &&
                               caught_in(system, implementation, property, *number, *number);
            if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(2))
                ++slow;
            else if (again)
                catches[property.name] = *number;
        }
    return catches;
}

/// For each property the bugs that the fewest others catch, and for each bug one property at least.
std::map<Bug, Catches> fewest(const std::map<Bug, Catches>& all) {
    constexpr std::size_t bugs_of_a_property = 5;
    std::vector<std::pair<std::size_t, Bug>> rarest;
    for (const auto& [bug, catches] : all)
        rarest.emplace_back(catches.size(), bug);
    std::ranges::sort(rarest);
    std::map<std::string, std::size_t> taken;
    std::map<Bug, Catches> result;
    for (const auto& [count, bug] : rarest) {
        Catches& chosen = result[bug];
        for (const auto& [property, number] : all.at(bug))
            if (taken[bug.first + " " + property]++ < bugs_of_a_property || (chosen.empty() && count == 1))
                chosen.emplace(property, number);
        if (chosen.empty() && count > 0)
            chosen.insert(*all.at(bug).begin());
    }
    return result;
}

void write(const std::string& path) {
    std::map<Bug, Catches> all;
    for (const gate::System& system : all_systems())
        for (const auto& [bug, implementation] : bugs_of(system)) {
            all[bug] = catches_of(system, *implementation);
            std::fprintf(stderr, "%s %d: %zu\n", bug.first.c_str(), bug.second, all[bug].size());
        }
    std::ofstream file(path);
    for (const auto& [bug, catches] : fewest(all)) {
        file << bug.first << " " << bug.second;
        for (const auto& [property, number] : catches)
            file << " " << property << ":" << number;
        file << "\n";
    }
}

TEST(Caught, EachPropertyStillCatchesWhatItCaught) {
    if (const char* const path = std::getenv("TRUESTEP_CAUGHT"); path != nullptr)
        return write(path);
    std::map<Bug, Catches> all = read(TRUESTEP_CAUGHT_FILE);
    for (const gate::System& system : all_systems()) {
        std::set<std::string> silent;
        for (const gate::Property& property : system.properties)
            silent.insert(property.name);
        const auto bugs = bugs_of(system);
        if (bugs.empty())
            continue;
        const auto clean = system.planted(0, gate::make_thread_group(std::chrono::seconds(20)));
        for (const auto& [bug, implementation] : bugs) {
            const std::string who = bug.first + "'s known bug " + std::to_string(bug.second);
            EXPECT_TRUE(all.contains(bug))
                << who << " is not in fixtures/caught.txt; remake it (see " << __FILE__ << ")";
            for (const auto& [property, number] : all[bug]) {
                silent.erase(property);
                const gate::Property& judge = system.property(property);
                EXPECT_TRUE(caught_in(system, *implementation, judge, number, number))
                    << property << " no longer catches " << who << " in its case " << number;
                EXPECT_FALSE(caught_in(system, *clean, judge, number, number))
                    << property << " accuses the clean implementation of " << system.name << " in its case "
                    << number;
            }
            all.erase(bug);
        }
        std::string names;
        for (const std::string& property : silent)
            names += " " + property;
        EXPECT_EQ(names, "") << "these properties of " << system.name
                             << " catch nothing in fixtures/caught.txt";
    }
}

} // namespace
} // namespace truestep::tool
