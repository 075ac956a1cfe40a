// Tests that each property of files holds: sanitizers run this.
#include <chrono>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>

#include "storage.hpp"

namespace truestep::properties::storage {

gate::System storage_system();

namespace {

TEST(Storage, EachPropertyHolds) {
    const gate::System system = storage_system();
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
} // namespace truestep::properties::storage
