// Compares each opcode and its modifiers with a plain evaluation, over edge values of all its
// operands.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "cases.hpp"
#include "support.hpp"

namespace truestep::simulator::tests {
namespace {

using u64 = std::uint64_t;

const std::vector<u64> edges{0,
                             1,
                             2,
                             31,
                             32,
                             63,
                             64,
                             0x7f,
                             0x80,
                             0xff,
                             0x7fff,
                             0x8000,
                             0xffff,
                             0x7fff'ffff,
                             0x8000'0000,
                             0xffff'ffff,
                             0x1'0000'0001,
                             0x7fff'ffff'ffff'ffff,
                             0x8000'0000'0000'0000,
                             0xffff'ffff'ffff'ffff,
                             0x0123'4567'89ab'cdef};
const std::vector<u64> floats{0x0000'0000, 0x8000'0000, 0x0000'0001, 0x807f'ffff, 0x0080'0000,
                              0x3f80'0000, 0x3f80'0001, 0xbfc0'0000, 0x7f7f'ffff, 0xff7f'ffff,
                              0x7f80'0000, 0xff80'0000, 0x7fc0'1234, 0x4049'0fdb};
const std::vector<u64> doubles{0,
                               0x8000'0000'0000'0000,
                               1,
                               0x0010'0000'0000'0000,
                               0x3ff0'0000'0000'0000,
                               0xbff8'0000'0000'0001,
                               0x3ff0'0000'1000'0000,
                               0x47ef'ffff'f000'0000,
                               0x7fef'ffff'ffff'ffff,
                               0x7ff0'0000'0000'0000,
                               0xfff0'0000'0000'0000,
                               0x7ff8'0000'0000'4321,
                               0x36a0'0000'0000'0001};

const std::vector<u64>& values_of(char type) {
    return type == 'f' ? floats : type == 'd' ? doubles : edges;
}

/// The register of a type, by its letter and width: h 16 bits, w 32, l 64, f and d floats, p a predicate.
std::string name_of(char type, int number) {
    const std::string n = std::to_string(number);
    switch (type) {
    case 'h':
        return "%rs" + n;
    case 'w':
        return "%r" + std::to_string(number + 1);
    case 'f':
        return "%f" + n;
    case 'd':
        return "%fd" + n;
    case 'p':
        return "%p" + n;
    default:
        return "%rd" + std::to_string(number + 9);
    }
}

std::string type_of(char type) {
    return type == 'h' ? "u16" : type == 'w' ? "u32" : type == 'f' ? "f32" : type == 'd' ? "f64" : "u64";
}

u64 mask_of(char type) {
    return type == 'h' ? 0xffff : type == 'w' || type == 'f' ? 0xffff'ffff : type == 'p' ? 1 : ~u64{0};
}

std::string loaded(char type, int number, std::size_t at) {
    if (type == 'p')
        return "ld.global.u64 %rd18, [%rd5+" + std::to_string(8 * at) + "];\nsetp.ne.s64 " +
               name_of('p', number) + ", %rd18, 0;\n";
    return "ld.global." + type_of(type) + " " + name_of(type, number) + ", [%rd5+" +
           std::to_string(8 * at) + "];\n";
}

std::string stored(char type) {
    if (type == 'p')
        return "selp.u64 %rd18, 1, 0, %p1;\nst.global.u64 [%rd6], %rd18;\n";
    return "st.global." + type_of(type) + " [%rd6], " + name_of(type, 1) + ";\n";
}

class Opcode : public testing::TestWithParam<OpcodeCase> {};

TEST_P(Opcode, IsThePlainEvaluation) {
    const OpcodeCase& one = GetParam();
    const std::size_t count = one.operands.size();
    std::vector<std::vector<u64>> rows{{}};
    for (const char type : one.operands) {
        std::vector<std::vector<u64>> longer;
        for (const auto& row : rows)
            for (const u64 value : type == 'p' ? std::vector<u64>{0, 1} : values_of(type)) {
                longer.push_back(row);
                longer.back().push_back(value);
            }
        // For three and four operands a sample that contains every value of each.
        const std::size_t stride = 1 + longer.size() / 4000;
        rows.clear();
        for (std::size_t i = 0; i < longer.size(); i += stride)
            rows.push_back(longer[i]);
    }
    std::vector<u64> in;
    for (const auto& row : rows)
        in.insert(in.end(), row.begin(), row.end());
    Bench bench;
    const u64 from = bench.memory(in);
    const u64 to = bench.memory(std::vector<u64>(rows.size()));
    std::string body = "mov.u32 %r2, %ctaid.x;\nmad.lo.s32 %r1, %r2, 32, %r1;\nmul.wide.u32 %rd4, %r1, " +
                       std::to_string(8 * count) +
                       ";\nadd.s64 %rd5, %rd1, %rd4;\nmul.wide.u32 %rd6, %r1, 8;\n" +
                       "add.s64 %rd6, %rd2, %rd6;\nsetp.ge.u32 %p8, %r1, " + std::to_string(rows.size()) +
                       ";\n@%p8 bra END;\n";
    std::string written = one.opcode + " " + name_of(one.result, 1);
    for (std::size_t i = 0; i < count; ++i) {
        body += loaded(one.operands[i], static_cast<int>(i) + 2, i);
        written += ", " + name_of(one.operands[i], static_cast<int>(i) + 2);
    }
    body += written + ";\n" + stored(one.result) + "END:\n";
    bench.run(body, {from, to}, static_cast<std::uint32_t>((rows.size() + lanes - 1) / lanes));
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t n = 0; n < count; ++n)
            rows[i][n] &= mask_of(one.operands[n]);
        ASSERT_EQ(bench.words(1)[i] & mask_of(one.result), one.plain(rows[i]) & mask_of(one.result))
            << one.opcode << " of " << testing::PrintToString(rows[i]);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Opcode, testing::ValuesIn(opcode_cases()), [](const auto& of) {
    std::string name = of.param.opcode;
    std::ranges::replace(name, '.', '_');
    return name;
});

/// Loads, stores and atomic operations, which the cases above do not cover.
class AccessOf : public testing::TestWithParam<std::string> {};

TEST_P(AccessOf, MovesTheBytesOfItsType) {
    const std::string type = GetParam();
    const auto dot = type.find('.');
    const std::string element = dot == std::string::npos ? type : type.substr(dot + 1);
    const int count = dot == std::string::npos ? 1 : type[1] - '0';
    const int bytes = std::stoi(element.substr(1)) / 8;
    const char letter = element[0] == 'f' ? (bytes == 4 ? 'f' : 'd')
                        : bytes == 8      ? 'l'
                        : bytes == 4      ? 'w'
                                          : 'h';
    std::string all;
    for (int n = 0; n < count; ++n)
        all += (n == 0 ? "" : ", ") + name_of(letter, n + 1);
    if (count > 1)
        all = "{" + all + "}";
    const std::string t = "." + type + " ";
    Bench bench;
    const u64 from = bench.memory({0x8182'8384'8586'8788, 0xf1f2'f3f4'f5f6'f7f8, 3, 4});
    const u64 to = bench.memory({0, 0, 0, 0, 0, 0, 0, 0});
    const u64 beside = bench.memory({9, 9, 9, 9});
    bench.run("setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nld.global" + t + all + ", [%rd1];\nst.shared" + t +
                  "[room], " + all + ";\nmov.b64 %rd7, room;\nld.shared" + t + all +
                  ", [%rd7];\nst.global" + t + "[%rd2], " + all + ";\nld" + t + all +
                  ", [%rd2];\nst.global" + t + "[%rd2+32], " + all + ";\nld.param" + t + all +
                  ", [k_0];\nst.global" + t + "[%rd3], " + all + ";\nEND:\n",
              {from, to, beside});
    const auto size = static_cast<std::size_t>(bytes * count);
    std::vector<u64> expected(8);
    std::memcpy(expected.data(), bench.words(0).data(), size);
    std::memcpy(expected.data() + 4, bench.words(0).data(), size);
    EXPECT_EQ(bench.words(1), expected);
    const u64 pointers[] = {from, to, beside};
    std::vector<u64> parameters{9, 9, 9, 9};
    std::memcpy(parameters.data(), pointers, size);
    EXPECT_EQ(bench.words(2), parameters);
}

const std::vector<std::string> access_types{
    "u8",    "u16",    "u32",    "u64",    "f32",    "f64",    "b8",    "b16",    "b32",    "b64",   "s32",
    "v2.u8", "v2.u16", "v2.u32", "v2.f32", "v2.u64", "v2.f64", "v4.u8", "v4.u32", "v4.f32", "v4.u16"};
INSTANTIATE_TEST_SUITE_P(All, AccessOf, testing::ValuesIn(access_types), [](const auto& of) {
    std::string name = of.param;
    std::ranges::replace(name, '.', '_');
    return name;
});

struct AtomicCase {
    std::string operation;
    u64 first;
    std::function<u64(u64, u64)> plain;
};

const std::vector<AtomicCase>& atomic_cases() {
    static const std::vector<AtomicCase> all{
        {"add.u32", 0xffff'fff0, [](u64 a, u64 b) { return (a + b) & 0xffff'ffff; }},
        {"add.u64", ~u64{0} - 20, [](u64 a, u64 b) { return a + b; }},
        {"or.b32", 0x100, [](u64 a, u64 b) { return a | b; }},
        {"or.b64", u64{1} << 63U, [](u64 a, u64 b) { return a | b; }},
        {"and.b64", ~u64{0}, [](u64 a, u64 b) { return a & b; }},
        {"min.s64", 5,
         [](u64 a, u64 b) { return static_cast<std::int64_t>(a) < static_cast<std::int64_t>(b) ? a : b; }}};
    return all;
}

TEST(Atomic, EachOfTheThreadsTakesItsTurnInBothMemories) {
    for (const AtomicCase& one : atomic_cases()) {
        const bool wide = one.operation.ends_with("64");
        const std::string value = wide ? "%rd8" : "%r3";
        const std::string old = wide ? "%rd9" : "%r4";
        const std::string type = wide ? "u64" : "u32";
        // Thread t provides 10 - t, which is negative from thread 11 on.
        const std::string give = "mov.u32 %r2, 10;\nsub.s32 %r3, %r2, %r1;\ncvt.s64.s32 %rd8, %r3;\n";
        for (const bool global : {true, false}) {
            Bench bench;
            const u64 place = bench.memory({one.first});
            const u64 to = bench.memory(std::vector<u64>(lanes));
            const std::string at = global ? "[%rd1]" : "[room]";
            const std::string space = global ? "global" : "shared";
            bench.run(give + "add.s64 %rd5, %rd2, %rd4;\nsetp.ne.u32 %p1, %r1, 0;\n" +
                          (global ? ""
                                  : "@%p1 bra READY;\nld.global." + type + " " + old +
                                        ", [%rd1];\nst.shared." + type + " [room], " + old +
                                        ";\nREADY:\nbar.sync 0;\n") +
                          "atom." + space + "." + one.operation + " " + old + ", " + at + ", " + value +
                          ";\nst.global." + type + " [%rd5], " + old +
                          ";\nbar.sync 0;\n@%p1 bra END;\nld." + space + "." + type + " " + old + ", " +
                          at + ";\nst.global." + type + " [%rd1], " + old + ";\nEND:\n",
                      {place, to});
            u64 expected = one.first;
            for (int t = 0; t < lanes; ++t) {
                const auto given = static_cast<u64>(static_cast<std::int64_t>(10 - t));
                expected = one.plain(expected, wide ? given : given & 0xffff'ffff);
            }
            EXPECT_EQ(bench.words(0)[0], expected) << one.operation << ' ' << space;
            const std::multiset<u64> seen(bench.words(1).begin(), bench.words(1).end());
            EXPECT_EQ(seen.count(one.first) > 0, true) << "the first one sees what stood there";
        }
    }
}

TEST(Control, BranchesVotesAndBarriersAreThoseOfTheWholeWarpAndBlock) {
    Bench bench;
    const u64 to = bench.memory(std::vector<u64>(64));
    for (u64 seed = 1; seed <= 20; ++seed) {
        bench.run(
            "add.s64 %rd5, %rd1, %rd4;\nand.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\n@!%p1 bra EVEN;\n"
            "mov.u64 %rd6, 100;\nbra.uni MEET;\nEVEN:\nmov.u64 %rd6, 200;\nbra MEET;\nMEET:\n"
            "vote.sync.ballot.b32 %r3, %p1, -1;\nvote.sync.ballot.b32 %r4, !%p1, -1;\n"
            "add.u32 %r3, %r3, %r4;\ncvt.u64.u32 %rd7, %r3;\nadd.s64 %rd6, %rd6, %rd7;\n"
            "bar.sync 0;\nst.global.u64 [%rd5], %rd6;\n",
            {to}, 1, 64, seed);
        for (std::size_t t = 0; t < 64; ++t)
            EXPECT_EQ(bench.words(0)[t], (t % 2 == 1 ? u64{100} : u64{200}) + 0xffff'ffffU);
    }
}

/// From which lane a lane gets its value, in parts of `size` lanes; -1 if it keeps its own.
struct Shuffled {
    std::string mode;
    int (*partner)(int lane, int by, int size);
};
const std::vector<Shuffled>& shuffles() {
    static const std::vector<Shuffled> all{
        {"up", [](int lane, int by, int size) { return lane % size < by ? -1 : lane - by; }},
        {"down", [](int lane, int by, int size) { return lane % size + by < size ? lane + by : -1; }},
        {"bfly", // it may reach into an earlier part, but not into a later one
         [](int lane, int by, int size) {
             int other = 0;
             for (int bit = 1; bit < lanes; bit *= 2)
                 other += lane / bit % 2 != by / bit % 2 ? bit : 0;
             return other / size <= lane / size ? other : -1;
         }},
        {"idx", [](int lane, int by, int size) { return lane / size * size + by % size; }}};
    return all;
}

TEST(Control, ShufflesMoveTheValuesOfTheWarp) {
    for (const Shuffled& one : shuffles())
        for (const int size : {32, 8, 1})
            for (const int by : {0, 1, 3, 7, 16, 31}) {
                Bench bench;
                const u64 to = bench.memory(std::vector<u64>(64));
                const int limits = (32 - size) * 256 + (one.mode == "up" ? 0 : 31);
                for (const bool told : {false, true}) {
                    const std::string predicate = told ? "|%p1" : "";
                    bench.run("add.s64 %rd5, %rd1, %rd4;\nmad.lo.s32 %r2, %r1, 7, 100;\n"
                              "setp.eq.s32 %p1, %r1, 1000;\nshfl.sync." +
                                  one.mode + ".b32 %r2" + predicate + ", %r2, " + std::to_string(by) +
                                  ", " + std::to_string(limits) +
                                  ", -1;\nselp.b32 %r3, 4096, 0, %p1;\nadd.s32 %r2, %r2, %r3;\n"
                                  "cvt.u64.u32 %rd6, %r2;\nst.global.u64 [%rd5], %rd6;\n",
                              {to}, 1, 64, static_cast<u64>(by) + 1);
                    for (int thread = 0; thread < 64; ++thread) {
                        const int found = one.partner(thread % lanes, by, size);
                        const int source = found < 0 ? thread : thread / lanes * lanes + found;
                        ASSERT_EQ(bench.words(0)[static_cast<std::size_t>(thread)],
                                  static_cast<u64>(7 * source + 100) + (told && found >= 0 ? 4096U : 0U))
                            << one.mode << " by " << by << " in parts of " << size << ", thread " << thread;
                    }
                }
            }
}

} // namespace

std::vector<std::string> tested_opcodes() {
    std::vector<std::string> all{"bra", "bra.uni", "ret", "bar.sync", "vote.sync.ballot.b32"};
    for (const Shuffled& one : shuffles())
        all.push_back("shfl.sync." + one.mode + ".b32");
    for (const OpcodeCase& one : opcode_cases())
        all.push_back(one.opcode);
    for (const std::string& type : access_types)
        for (const std::string access :
             {"ld.global.", "ld.shared.", "ld.param.", "ld.", "st.global.", "st.shared."})
            all.push_back(access + type);
    for (const AtomicCase& one : atomic_cases())
        for (const std::string space : {"atom.global.", "atom.shared."})
            all.push_back(space + one.operation);
    return all;
}

} // namespace truestep::simulator::tests
