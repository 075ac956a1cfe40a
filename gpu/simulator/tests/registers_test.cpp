// Drawn programs give the same results with and without shared register places.
#include <gtest/gtest.h>

#include <random>

#include "support.hpp"

namespace truestep::simulator::tests {
namespace {

constexpr int values = 24;
constexpr int statements = 60;

class Drawn {
  public:
    explicit Drawn(std::uint64_t seed) : random_(seed) {}

    /// Each lane stores into its own places of the first array, one word for each statement.
    std::string body() {
        line(".reg .b32 %x<" + std::to_string(values) + ">;");
        line(".reg .b32 %count<" + std::to_string(statements) + ">;");
        line("cvt.u64.u32 %rd5, %r1;\nshl.b64 %rd5, %rd5, 2;\nadd.s64 %rd6, %rd1, %rd5;");
        for (int n = 0; n < values; ++n)
            line("mad.lo.s32 %x" + std::to_string(n) + ", %r1, " + std::to_string(2 * n + 3) + ", " +
                 std::to_string(n) + ";");
        for (int n = 0; n < statements; ++n)
            line("mov.u32 %count" + std::to_string(n) + ", 0;");
        for (int n = 0; n < statements; ++n) {
            line("L" + std::to_string(n) + ":");
            statement(n);
        }
        line("L" + std::to_string(statements) + ":");
        return std::move(text_);
    }

  private:
    int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
    std::string any() { return "%x" + std::to_string(below(values)); }
    void line(const std::string& text) { text_ += text + "\n"; }

    void statement(int n) {
        const std::string number = std::to_string(n);
        switch (below(8)) {
        case 0: // onward, for some of the lanes
            line("setp.lt.u32 %p1, " + any() + ", " + any() + ";");
            line("@%p1 bra L" + std::to_string(n + 1 + below(statements - n)) + ";");
            break;
        case 1: // back, for some lanes more often
            line("add.u32 %count" + number + ", %count" + number + ", 1;");
            line("and.b32 %r2, %r1, 3;\nsetp.lt.u32 %p2, %count" + number + ", %r2;");
            line("@%p2 bra L" + std::to_string(below(n + 1)) + ";");
            break;
        case 2:
            line("st.global.u32 [%rd6+" + std::to_string(n * lanes * 4) + "], " + any() + ";");
            break;
        case 3: // the other lanes keep what they had
            line("setp.gt.u32 %p3, " + any() + ", " + any() + ";");
            line("@%p3 mov.u32 " + any() + ", " + any() + ";");
            break;
        case 4:
            line("mov.u32 " + any() + ", " + std::to_string(below(1000)) + ";");
            break;
        case 5:
            line("selp.u32 " + any() + ", " + any() + ", " + any() + ", %p4;\nsetp.ne.u32 %p4, " + any() +
                 ", 7;");
            break;
        default:
            line("mad.lo.s32 " + any() + ", " + any() + ", " + any() + ", " + any() + ";");
        }
    }

    std::mt19937_64 random_;
    std::string text_;
};

std::vector<std::uint64_t> stored(const std::string& body, Registers registers) {
    Bench bench;
    const std::uint64_t at = bench.memory(std::vector<std::uint64_t>(statements * lanes / 2));
    bench.run(body, {at, at, at}, 1, lanes, 5, registers);
    return bench.words(0);
}

TEST(Registers, SharedGiveWhatThoseApartGive) {
    int different = 0;
    for (std::uint64_t seed = 1; seed <= 300; ++seed) {
        const std::string body = Drawn(seed).body();
        const auto apart = stored(body, Registers::apart);
        ASSERT_EQ(stored(body, Registers::shared), apart) << "seed " << seed << "\n" << body;
        different += static_cast<int>(apart != std::vector<std::uint64_t>(apart.size()));
    }
    EXPECT_GE(different, 270) << "programs that store nothing show nothing";
}

TEST(Registers, ThoseOfManyValuesAreFew) {
    std::string body = ".reg .b32 %x<1001>;\nmov.u32 %x0, 1;\n";
    for (int n = 0; n < 1000; ++n)
        body += "add.s32 %x" + std::to_string(n + 1) + ", %x" + std::to_string(n) + ", %r1;\n";
    body += "st.global.u32 [%rd1], %x1000;\n";
    const auto registers_of = [&](Registers registers) {
        return parse(kernel_of(body), registers).kernels.begin()->second->registers;
    };
    EXPECT_GE(registers_of(Registers::apart), 1000);
    EXPECT_LE(registers_of(Registers::shared), first_register + 8);
}

} // namespace
} // namespace truestep::simulator::tests
