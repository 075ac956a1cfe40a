// Tests of each system that no other takes its cases, and that the page draws the lanes of its findings.
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/report/page.hpp>

#include "systems.hpp"

namespace truestep::tool {
namespace {

gate::Line drawn_case(const gate::System& system) {
    const auto cases = system.property(system.reference_property).cases({}, {});
    return cases(rc::Random(1), rc::kNominalSize).value();
}

TEST(EachSystem, RefusesCasesOfOthersAndNamesThem) {
    for (const gate::System& system : all_systems())
        for (const gate::System& other : all_systems()) {
            const gate::Line line = drawn_case(other);
            std::string refused;
            try {
                EXPECT_EQ(gate::parsed_case(system, all_systems(), line), line);
            } catch (const Error& error) {
                refused = error.what();
            }
            EXPECT_EQ(refused, other.name == system.name
                                   ? ""
                                   : "--case is a case of the system " + other.name + ", and this is " +
                                         system.name + "; name it behind check: check " + other.name +
                                         " ...")
                << line;
        }
}

/// A finding with a drawing, of the system's first known bug.
std::optional<gate::Counterexample> drawn_finding(const gate::System& system) {
    const auto planted = system.planted(1, gate::make_thread_group(std::chrono::seconds(5)));
    for (const gate::Property& property : system.properties) {
        gate::SearchOptions options;
        options.cases = 10;
        auto found = gate::search(system, *planted, property, options).counterexample;
        if (found && found->finding->drawing())
            return found;
    }
    return std::nullopt;
}

std::string figure_of(const gate::System& system, const gate::Counterexample& found) {
    gate::Results results(system);
    results.add_property({{"implementation", "planted-1"},
                          {"property", "reference"},
                          {"status", "FAILED"},
                          {"failure", gate::failure_json(found, "")}});
    const std::string page = report::html_page({results.document({}, 1, 0.0)});
    const std::size_t begin = page.find("<figure");
    return begin == std::string::npos ? "" : page.substr(begin, page.find("</figure>") - begin);
}

TEST(EachSystem, HasItsLanesAndNoOthersDrawn) {
    int drawn = 0;
    for (const gate::System& system : all_systems()) {
        const auto found = drawn_finding(system);
        if (!found)
            continue;
        ++drawn;
        const gate::Drawing drawing = *found->finding->drawing();
        const std::string figure = figure_of(system, *found);
        const auto count = [&figure](const std::string& part) {
            int times = 0;
            for (std::size_t at = figure.find(part); at != std::string::npos;
                 at = figure.find(part, at + 1))
                ++times;
            return times;
        };
        int rows = drawing.segments.empty() ? 2 : 3; // tensors, coordinates and owners
        for (const gate::Lane& lane : drawing.lanes) {
            const int of_lane = lane.shared ? 1 : drawing.ranks;
            EXPECT_GE(count("<th scope=\"row\">" + lane.name + "</th>"), of_lane)
                << system.name << " " << lane.name;
            rows += of_lane;
        }
        EXPECT_EQ(count("<th scope=\"row\">"), rows) << system.name;
        EXPECT_GE(count(", expected "), 1) << system.name << ": a wrong value is beside the reference's";
        EXPECT_EQ(count(">owner<"), drawing.segments.empty() ? 0 : 1) << system.name;
    }
    EXPECT_GE(drawn, 3);
}

} // namespace
} // namespace truestep::tool
