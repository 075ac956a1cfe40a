// Every property with every implementation of this build, on the property's own cases.
#include <chrono>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>
#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/property.hpp>
#include <truestep/properties/scape/system.hpp>

namespace truestep::properties::scape {
namespace {

const std::vector<std::shared_ptr<const Implementation>>& implementations() {
    static const auto all = all_implementations(make_thread_group(std::chrono::seconds(20)));
    return all;
}

struct Pair {
    std::size_t implementation;
    std::size_t property;
};

std::ostream& operator<<(std::ostream& stream, const Pair& pair) {
    return stream << implementations()[pair.implementation]->name() << ' '
                  << all_properties()[pair.property].name;
}

std::vector<Pair> applicable() {
    static const gate::System system = system_of_properties();
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < implementations().size(); ++i)
        for (std::size_t p = 0; p < all_properties().size(); ++p) {
            const Implementation& implementation = *implementations()[i];
            if (gate::why_not(system.property(all_properties()[p].name), implementation,
                              implementation.unsupported())
                    .empty())
                pairs.push_back({i, p});
        }
    return pairs;
}

/// A hundred; TRUESTEP_PROPERTY_CASES asks for fewer where each takes long, as under a sanitizer.
int cases_of_each() {
    const char* given = std::getenv("TRUESTEP_PROPERTY_CASES");
    return given == nullptr ? 100 : std::stoi(given);
}

class EveryImplementation : public testing::TestWithParam<Pair> {};

TEST_P(EveryImplementation, Has) {
    const Implementation& implementation = *implementations()[GetParam().implementation];
    const Property& property = all_properties()[GetParam().property];
    if (const std::string why = implementation.unavailable(); !why.empty())
        GTEST_SKIP() << why;
    static const gate::System system = system_of_properties();
    gate::SearchOptions options;
    options.cases = cases_of_each();
    options.unsupported = implementation.unsupported();
    const gate::SearchResult result =
        search(system, implementation, system.property(property.name), options);
    EXPECT_EQ(result.cases, options.cases);
    if (result.counterexample) {
        ADD_FAILURE() << property.says << "\n"
                      << result.counterexample->finding->message()
                      << "\ncase: " << result.counterexample->line;
    } else if (options.cases >= 100) { // fewer cannot show how often a kind comes
        EXPECT_EQ(too_few(system, system.property(property.name), result, options), "");
    }
}

INSTANTIATE_TEST_SUITE_P(Gate, EveryImplementation, testing::ValuesIn(applicable()),
                         [](const auto& chosen) {
                             std::string name = implementations()[chosen.param.implementation]->name() +
                                                "_" + all_properties()[chosen.param.property].name;
                             for (char& letter : name)
                                 letter =
                                     std::isalnum(static_cast<unsigned char>(letter)) != 0 ? letter : '_';
                             return name;
                         });

} // namespace
} // namespace truestep::properties::scape
