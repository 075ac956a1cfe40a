#pragma once

// Kernels written by hand, and memory for them.

#include <cstring>
#include <string>
#include <vector>

#include <truestep/simulator/fault.hpp>
#include <truestep/simulator/machine.hpp>

namespace truestep::simulator::tests {

/// A kernel `k` of three pointers, %rd1 to %rd3, with registers of all kinds and 1024 bytes of shared
/// memory, `room`. %r1 is the thread, %rd4 eight times that.
inline std::string kernel_of(const std::string& body) {
    return ".version 9.0\n.target sm_90\n.address_size 64\n"
           ".visible .entry k(\n.param .u64 k_0,\n.param .u64 k_1,\n.param .u64 k_2\n)\n{\n"
           ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .f32 %f<9>;\n.reg .b64 %rd<19>;\n"
           ".reg .f64 %fd<9>;\n.shared .align 8 .b8 room[1024];\n"
           "ld.param.u64 %rd1, [k_0];\nld.param.u64 %rd2, [k_1];\nld.param.u64 %rd3, [k_2];\n"
           "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd4, %r1, 8;\n" +
           body + "ret;\n}\n";
}

class Bench {
  public:
    /// Copies words to memory that kernels may touch, and returns the address. unwritten() gives
    /// bytes that count as not written.
    std::uint64_t memory(std::vector<std::uint64_t> words) { return add(std::move(words), true); }
    std::uint64_t unwritten(std::size_t words) { return add(std::vector<std::uint64_t>(words), false); }

    void run(const std::string& body, const std::vector<std::uint64_t>& pointers, std::uint32_t blocks = 1,
             std::uint32_t threads = lanes, std::uint64_t seed = 1,
             Registers registers = Registers::shared) {
        const Program program = parse(kernel_of(body), registers);
        std::vector<std::uint8_t> parameters(24);
        std::memcpy(parameters.data(), pointers.data(), pointers.size() * 8);
        machine_.launch(program.kernels.begin()->second, blocks, threads, parameters, seed);
    }

    /// The text of the Fault that the run throws, or "".
    std::string fault_of(const std::string& body, const std::vector<std::uint64_t>& pointers,
                         std::uint32_t blocks = 1, std::uint32_t threads = lanes, std::uint64_t seed = 1) {
        try {
            run(body, pointers, blocks, threads, seed);
        } catch (const Fault& fault) {
            return fault.what();
        }
        return {};
    }

    [[nodiscard]] const std::vector<std::uint64_t>& words(std::size_t number) const {
        return *kept_[number];
    }

  private:
    std::uint64_t add(std::vector<std::uint64_t> words, bool filled) {
        kept_.push_back(std::make_unique<std::vector<std::uint64_t>>(std::move(words)));
        const auto at = reinterpret_cast<std::uint64_t>(kept_.back()->data());
        machine_.memory().add(at, kept_.back()->size() * 8, 0, filled);
        return at;
    }

    Machine machine_;
    std::vector<std::unique_ptr<std::vector<std::uint64_t>>> kept_;
};

/// The opcodes that the table of instructions_test.cpp or a separate test covers.
[[nodiscard]] std::vector<std::string> tested_opcodes();

} // namespace truestep::simulator::tests
