// Tests that each property of exchanges holds over threads: sanitizers run this.
#include <chrono>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>

#include "exchange.hpp"

namespace truestep::properties::exchange {

gate::System exchange_system();

namespace {

TEST(Exchange, EachPropertyHolds) {
    const gate::System system = exchange_system();
    const auto group = gate::make_thread_group(std::chrono::seconds(60));
    const auto tested = system.implementations(group).front();
    for (const gate::Property& property : system.properties) {
        gate::SearchOptions options;
        options.cases = 40;
        const auto found = search(system, *tested, property, options);
        EXPECT_FALSE(found.counterexample) << property.name;
    }
}

} // namespace
} // namespace truestep::properties::exchange
