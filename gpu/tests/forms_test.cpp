// Tests the names of forms of device code, why one is not available, and how its bugs are numbered.
#include <truestep/gpu/device_bugs.hpp>
#include <truestep/gpu/forms.hpp>

#include <array>

#include <gtest/gtest.h>

#include <truestep/gpu/availability.hpp>

namespace truestep::gpu {
namespace {

TEST(Forms, OneThatIsNotAvailableSaysWhyAndRunsOnNothing) {
    const Availability here = availability();
    for (const Form& form :
         {form_of_one_device("no products"), form_of_a_device_each(true, "no products")}) {
        EXPECT_EQ(form.unavailable, here.devices == 0 ? here.text : "no products") << form.name;
        EXPECT_EQ(form.runs_on, "") << form.name;
    }
    EXPECT_EQ(form_of_one_device().unavailable.empty(), here.devices > 0);
}

TEST(Forms, DevicesAreNamedAndTheSimulatorIsNone) {
    EXPECT_EQ(form_of_one_device().name, simulated() ? "cuda-simulated" : "cuda");
    EXPECT_EQ(form_of_a_device_each(true).name, simulated() ? "cuda-nccl-simulated" : "cuda-nccl");
}

TEST(DeviceMistakes, AreNumberedInTheHostsFormAndThenOnADevice) {
    const std::array planted{problem::KnownBug{1, "one", "shows"},
                             problem::KnownBug{2, "two", "shows, too"}};
    const DeviceMistakes all{40, planted};
    const auto listed = all.listed();
    ASSERT_EQ(listed.size(), 4U);
    EXPECT_EQ(listed[1].name, "blocks, in the host's form: two");
    EXPECT_EQ(listed[1].shows, "shows, too");
    for (int number = 40; number < 44; ++number) {
        EXPECT_TRUE(all.has(number));
        EXPECT_EQ(listed[static_cast<std::size_t>(number - 40)].number, number);
        EXPECT_TRUE(listed[static_cast<std::size_t>(number - 40)].of_devices);
        EXPECT_EQ(all.planted_as(number), number % 2 == 0 ? 1 : 2);
        EXPECT_EQ(all.on_device(number), number >= 42);
    }
    EXPECT_FALSE(all.has(39));
    EXPECT_FALSE(all.has(44));
}

} // namespace
} // namespace truestep::gpu
