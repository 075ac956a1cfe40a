// GASLoC's properties in the gate's terms, for whoever's implementations.
#include <utility>

#include <truestep/gasloc/traces.hpp>
#include <truestep/gate/gate_main.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/problem/error.hpp>

#include "candidate.hpp"
#include "learning.hpp"
#include "program.hpp"
#include "properties.hpp"
#include "system.hpp"

namespace truestep::gasloc {

namespace {

using gate::Pins;

/// By way of a case, which knows what may be.
void check(const std::string& key, const std::string& value) {
    static_cast<void>(parse_case("law=none," + key + "=" + value));
}

/// The options that hold cases to values, and the keys of a case that they are.
struct Option {
    const char* option;
    const char* key;
    const char* help;
};
constexpr Option options[]{
    {"workers", "workers", "numbers of ranks; 1,2,3,4,5,7,8,16,33 without it"},
    {"law", "law", "pairs,two_peers,ring,exponential,hypercube,complete,none,explicit; all without it"},
    {"inner", "inner", "sgd,adams,adamw"},
    {"momentum", "momentum", "local,gossiped"},
    {"inner-steps", "steps", "greatest numbers of inner steps in a round"},
};

/// Which of the values a case gets: any, but always the same for the same case; shrinking leads to the
/// first.
const std::string& value_of(const std::vector<std::string>& values, const gate::Line& line) {
    std::size_t sum = 0;
    if (values.size() > 1)
        for (const char letter : line)
            sum = sum * 31 + static_cast<unsigned char>(letter);
    return values[sum % values.size()];
}

gate::Line pinned(const gate::Line& line, const Pins& pins) {
    Case run = parse_case(line);
    gate::Line changed = text(run);
    for (const Option& option : options)
        if (const auto found = pins.find(option.option); found != pins.end() && !found->second.empty())
            changed += std::string(",") + option.key + "=" + value_of(found->second, line);
    if (pins.contains("workers"))
        changed += ",to=0";
    // A hypercube has a power of two of workers; where both are asked for, the ring stands in.
    try {
        return text(parse_case(changed));
    } catch (const Error&) {
        return text(parse_case(changed + ",law=ring"));
    }
}

std::vector<Pins> rows(const gate::Implementation& implementation, const Pins& pins) {
    const auto values = [&pins](const char* option, const std::vector<std::string>& usual) {
        const auto found = pins.find(option);
        return found == pins.end() ? usual : found->second;
    };
    std::vector<Pins> all;
    for (const std::string& workers : values("workers", {"1", "2", "3", "4", "5", "7", "8", "16", "33"}))
        for (const std::string& law : values("law", {"pairs", "two_peers", "ring", "exponential",
                                                     "hypercube", "complete", "none", "explicit"})) {
            const int count = std::stoi(workers);
            if (law == "hypercube" && (count & (count - 1)) != 0)
                continue;
            if (implementation.takes(count))
                all.push_back({{"workers", {workers}}, {"law", {law}}});
        }
    return all;
}

} // namespace

gate::System system_of_properties() {
    gate::System system;
    system.name = "gasloc";
    system.says = "GASLoC: local steps, then accelerated gossip with the neighbours of the round.";
    system.parsed = [](const gate::Line& line) { return text(parse_case(line)); };
    system.most_workers = [](const gate::Line& line) {
        return static_cast<int>(most_workers(parse_case(line)));
    };
    for (const Option& option : options)
        system.pins.push_back(
            {option.option, option.help, true,
             [key = std::string(option.key)](const std::string& text) { check(key, text); }});
    system.pinned = pinned;
    system.decided = [](const std::string& kind, const Pins& pins, const gate::LeftOut& left_out) {
        if (kind == "restart" || kind == "other number of ranks")
            return pins.contains("workers") || left_out.contains("restart");
        if (kind == "adaptive")
            return pins.contains("inner");
        if (kind == "uneven" || kind == "no inner steps" || kind == "several inner steps" ||
            kind == "skipped")
            return pins.contains("inner-steps");
        // The rest depends on who meets whom.
        return pins.contains("workers") || pins.contains("law");
    };
    system.settings = {"workers", "law"};
    system.rows = rows;
    system.properties = properties();
    system.traces = traces();
    system.program = program_candidate;
    system.learning = learning();
    return system;
}

gate::System system_with(std::vector<Ranked> candidates) {
    gate::System system = system_of_properties();
    system.implementations = [candidates =
                                  std::move(candidates)](const std::shared_ptr<const gate::Group>& group) {
        gate::Implementations all;
        for (const Ranked& candidate : candidates) {
            Seat seat{.level = candidate.level, .left_out = candidate.left_out};
            if (!candidate.restart)
                seat.left_out.try_emplace("restart", "it has no checkpoints");
            all.push_back(std::make_shared<Workers>(
                candidate.name, Subjects{candidate.start, candidate.restart, train}, group, seat));
        }
        return all;
    };
    return system;
}

int gate_main(int count, char** values, std::vector<Ranked> candidates) {
    return gate::gate_main(count, values, {system_with(std::move(candidates))});
}

} // namespace truestep::gasloc
