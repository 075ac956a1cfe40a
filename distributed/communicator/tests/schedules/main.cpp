// Searches for schedules that fail, and repeats one: docs/schedules.md.

#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "scenarios.hpp"

namespace truestep::distributed::model {
namespace {

constexpr const char* usage =
    R"(Usage: schedules SCENARIO MISTAKE all BOUND         all schedules with at most so many preemptions
       schedules SCENARIO MISTAKE seed SEED COUNT    so many drawn ones
       schedules SCENARIO MISTAKE repeat SCHEDULE    one, and each of its steps
MISTAKE is the number of a planted one, or 0. The exit status is 1 where a schedule fails.
)";

ExplorationResult explore(const std::vector<std::string>& words) {
    const Scenario asked = scenario(words.at(0), std::stoi(words.at(1)));
    if (words.at(2) == "all")
        return enumerate_up_to(asked, std::stoi(words.at(3)));
    if (words.at(2) == "seed")
        return draw(asked, std::stoull(words.at(3)), std::stoull(words.at(4)));
    if (words.at(2) == "repeat")
        return repeat(asked, words.at(3));
    throw std::invalid_argument("there are all, seed and repeat, not " + words.at(2));
}

int run(const std::vector<std::string>& words) {
    if (words.size() < 4) {
        std::cout << usage << "Scenarios:";
        for (const Scenario& known : scenarios())
            std::cout << ' ' << known.name;
        std::cout << '\n';
        return 2;
    }
    const ExplorationResult explored = explore(words);
    std::cout << explored.schedules << " schedules, " << explored.cut << " of them cut\n";
    if (!explored.failure)
        return 0;
    std::cout << explored.failure->story << explored.failure->what << "\nschedule \""
              << explored.failure->schedule << "\"\n";
    return 1;
}

} // namespace
} // namespace truestep::distributed::model

int main(int count, char** words) {
    try {
        return truestep::distributed::model::run({words + 1, words + count});
    } catch (const std::exception& error) {
        std::cerr << "schedules: " << error.what() << '\n';
        return 2;
    }
}
