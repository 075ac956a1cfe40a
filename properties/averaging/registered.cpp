// Local SGD with averaging, in the gate's terms: docs/adding-a-system.md.
#include <algorithm>

#include <truestep/gate/system.hpp>
#include <truestep/problem/error.hpp>

#include "candidate.hpp"
#include "planted/planted.hpp"
#include "properties.hpp"

namespace truestep::systems {

namespace {

using averaging::Case;
using averaging::parse_case;
using gate::Pins;

/// By way of a case, which knows what a number may be.
void check(const std::string& key, const std::string& value) {
    static_cast<void>(parse_case("local_steps=1," + key + "=" + value));
}

/// Any of the pinned values may come; shrinking leads to the first.
void pin(const Pins& pins, const std::string& option, problem::Index& value) {
    if (const auto found = pins.find(option); found != pins.end() && !found->second.empty())
        value = std::stoll(found->second[static_cast<std::size_t>(value - 1) % found->second.size()]);
}

gate::Line pinned(const gate::Line& line, const Pins& pins) {
    Case run = parse_case(line);
    pin(pins, "workers", run.workers);
    pin(pins, "local-steps", run.local_steps);
    return text(run);
}

std::vector<Pins> rows(const gate::Implementation& implementation, const Pins& pins) {
    const auto values = [&pins](const char* option, const std::vector<std::string>& usual) {
        const auto found = pins.find(option);
        return found == pins.end() ? usual : found->second;
    };
    std::vector<Pins> all;
    for (const std::string& workers : values("workers", {"1", "2", "3", "4", "5", "7", "8"}))
        if (implementation.takes(std::stoi(workers)))
            for (const std::string& local_steps : values("local-steps", {"1", "2", "5"}))
                all.push_back({{"workers", {workers}}, {"local-steps", {local_steps}}});
    return all;
}

} // namespace

gate::System averaging_system();

gate::System averaging_system() {
    gate::System system;
    system.name = "averaging";
    system.says = "Local SGD: some steps of each worker alone, then the mean of their parameters.";
    system.parsed = [](const gate::Line& line) { return text(parse_case(line)); };
    system.most_workers = [](const gate::Line& line) { return static_cast<int>(parse_case(line).workers); };
    system.pins = {{"workers", "numbers of ranks; 1,2,3,4,5,7,8 without it", true,
                    [](const std::string& text) { check("workers", text); }},
                   {"local-steps", "numbers of local steps in a round; 1,2,5 without it", true,
                    [](const std::string& text) { check("local_steps", text); }}};
    system.pinned = pinned;
    system.decided = [](const std::string& kind, const Pins& pins, const gate::LeftOut&) {
        return pins.contains(kind == "several ranks" ? "workers" : "local-steps");
    };
    system.settings = {"workers", "local_steps"};
    system.options_of_settings = {{"local_steps", "local-steps"}};
    system.rows = rows;
    system.properties = averaging::properties();
    system.implementations = [](const std::shared_ptr<const gate::Group>& group) {
        return gate::Implementations{
            std::make_shared<averaging::Candidate>("host", averaging::play_worker, group),
            averaging::planted(0, group)};
    };
    system.mistakes = averaging::mistakes();
    system.planted = averaging::planted;
    system.clean = {"host"};
    return system;
}

} // namespace truestep::systems
