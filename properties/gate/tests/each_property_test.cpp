// Tests that each property of a system holds over threads: sanitizers run this. The build names the system.
#include <chrono>

#include <gtest/gtest.h>

#include <truestep/gate/search.hpp>

#define SYSTEM_OF_(name) name##_system
#define SYSTEM_OF(name) SYSTEM_OF_(name)

namespace truestep::properties::TRUESTEP_SYSTEM {
gate::System SYSTEM_OF(TRUESTEP_SYSTEM)();
}

namespace truestep::gate {
namespace {

TEST(System, EachPropertyHolds) {
    const System system = properties::TRUESTEP_SYSTEM::SYSTEM_OF(TRUESTEP_SYSTEM)();
    const auto group = make_thread_group(std::chrono::seconds(60));
    const auto tested = system.implementations(group).front();
    for (const Property& property : system.properties) {
        SearchOptions options;
        options.cases = 40;
        const auto found = search(system, *tested, property, options);
        EXPECT_FALSE(found.counterexample) << property.name << " " << found.counterexample->line;
    }
}

} // namespace
} // namespace truestep::gate
