// Checks that every opcode in the project's own kernels, as nvcc compiled them into this program,
// has a unit test.
#include <gtest/gtest.h>

#include <set>

#include "device.hpp"
#include "support.hpp"

namespace truestep::simulator::tests {
namespace {

std::set<std::string> untested(const std::set<std::string>& opcodes) {
    const auto all = tested_opcodes();
    std::set<std::string> left = opcodes;
    for (const std::string& tested : all)
        left.erase(tested);
    return left;
}

TEST(Census, EveryOpcodeOfTheKernelsHasATest) {
    std::set<std::string> used;
    std::size_t kernels = 0;
    for (const auto& module : Device::get().modules) {
        const Program& program = module->get();
        used.insert(program.opcodes.begin(), program.opcodes.end());
        kernels += program.kernels.size();
    }
    EXPECT_GE(kernels, 30U) << "the kernels are not linked";
    EXPECT_GE(used.size(), 140U);
    EXPECT_EQ(untested(used), std::set<std::string>());
}

TEST(Census, CanFail) {
    EXPECT_EQ(untested({"add.s32", "lg2.approx.f32"}), std::set<std::string>{"lg2.approx.f32"});
}

} // namespace
} // namespace truestep::simulator::tests
