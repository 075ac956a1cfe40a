// Tests that the same seed draws the same cases, and shrinks them by the same steps, in every
// version. fixtures/drawn.txt has a digest of both for each property. A change that intends to draw
// other cases copies the new digests there.
#include <cstdint>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include <truestep/gate/group.hpp>
#include <truestep/gate/search.hpp>

#include "systems.hpp"

namespace truestep::tool {
namespace {

constexpr int lines_of_a_property = 1000;
constexpr int steps_of_shrinking = 200;

/// A digest of all lines in their order (FNV-1a).
struct Digest {
    std::uint64_t value = 0xcbf2'9ce4'8422'2325U;

    void add(const std::string& line) {
        for (const char letter : line + "\n")
            value = (value ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3U;
    }
};

std::string digests(const gate::System& system, const gate::Implementation& implementation,
                    const gate::Property& property) {
    const auto digest_of = [&](int cases, bool fails) {
        Digest digest;
        gate::SearchOptions options;
        options.cases = cases;
        options.most_evaluations = steps_of_shrinking;
        options.most_seconds = 1e9;
        options.before = [&](const gate::Line& line) {
            digest.add(line);
            return true;
        };
        options.judge = [&](const gate::Implementation&, const gate::Property&, const gate::Line&) {
            gate::CaseJudgement judged;
            if (fails)
                judged.finding = gate::unjudged("fails");
            return judged;
        };
        static_cast<void>(search(system, implementation, property, options));
        std::ostringstream text;
        text << std::hex << digest.value;
        return text.str();
    };
    return system.name + " " + property.name + " " + digest_of(lines_of_a_property, false) + " " +
           digest_of(1, true);
}

TEST(Drawn, TheSameSeedDrawsTheSameLines) {
    std::ostringstream found;
    for (const gate::System& system : all_systems()) {
        const auto implementations = system.implementations(gate::make_thread_group({}));
        for (const gate::Property& property : system.properties)
            found << digests(system, *implementations.front(), property) << "\n";
    }
    std::ifstream file(TRUESTEP_DRAWN);
    std::ostringstream promised;
    promised << file.rdbuf();
    if (found.str() == promised.str())
        return;
    const std::string made = testing::TempDir() + "drawn.txt";
    std::ofstream(made) << found.str();
    ADD_FAILURE() << "other cases are drawn than before: diff " << TRUESTEP_DRAWN << " " << made;
}

/// The value of a key in a line; "" if it is the default.
std::string value_in(const gate::Line& line, const std::string& key) {
    std::istringstream parts(line);
    for (std::string part; std::getline(parts, part, ',');)
        if (part.starts_with(key + "="))
            return part;
    return {};
}

TEST(Drawn, EachValueThatAUserGivesComes) {
    for (const gate::System& system : all_systems()) {
        const auto implementations = system.implementations(gate::make_thread_group({}));
        for (const std::string& setting : system.settings) {
            std::set<std::string> given;
            for (const gate::Overrides& row : system.rows(*implementations.front(), {}))
                given.insert(row.at(system.option_of(setting)).front());
            const gate::Overrides overrides{{system.option_of(setting), {given.begin(), given.end()}}};
            rc::Random random(1);
            std::set<std::string> come;
            for (int drawn = 0; drawn < lines_of_a_property; ++drawn) {
                const auto cases = system.property(system.reference_property).cases(overrides, {});
                come.insert(value_in(cases(random.split(), rc::kNominalSize).value(), setting));
            }
            EXPECT_EQ(come.size(), given.size()) << system.name << " " << setting;
        }
    }
}

} // namespace
} // namespace truestep::tool
