// Each kind of fault is found, reported with its place, and ends only that launch; correct code is
// not accused.
#include <gmock/gmock.h>

#include "support.hpp"

namespace truestep::simulator::tests {
namespace {

using testing::HasSubstr;

TEST(Fault, SaysKernelBlockThreadLineAndInstruction) {
    Bench bench;
    const auto small = bench.memory(std::vector<std::uint64_t>(16));
    const std::string said =
        bench.fault_of("add.s64 %rd5, %rd1, %rd4;\n.loc 7 33 1\nst.global.u64 [%rd5], %rd4;\n", {small});
    EXPECT_THAT(said, HasSubstr("illegal address in global memory: k, block 0, thread 16, PTX line "));
    EXPECT_THAT(said, HasSubstr("`st.global.u64 [%rd5], %rd4;`"));
    EXPECT_EQ(said.find('\n'), std::string::npos);
}

TEST(Fault, SaysTheLineOfTheSource) {
    const std::string ptx = kernel_of(".loc 2 41 5\nst.global.u64 [%rd4], %rd4;\n") +
                            ".file 1 \"/a/b.cu\"\n.file 2 \"/a/b/name.hpp\"\n";
    const auto kernel = parse(ptx).kernels.at("k");
    Machine machine;
    try {
        machine.launch(kernel, 1, 1, std::vector<std::uint8_t>(24), 1);
        FAIL() << "an address that is none";
    } catch (const Fault& fault) {
        EXPECT_THAT(fault.what(), HasSubstr(", name.hpp:41"));
    }
}

TEST(Fault, EndsItsLaunchAlone) {
    Bench bench;
    const auto place = bench.memory({0});
    EXPECT_NE(bench.fault_of("st.global.u64 [%rd4], %rd4;\n", {place}), "");
    EXPECT_EQ(bench.fault_of("setp.ne.u32 %p1, %r1, 0;\n@!%p1 st.global.u64 [%rd1], 5;\n", {place}), "");
    EXPECT_EQ(bench.words(0)[0], 5U);
}

TEST(Address, OneByteBeyondIsIllegalAndTheLastOneIsNot) {
    Bench bench;
    const auto place = bench.memory({0, 0});
    EXPECT_EQ(bench.fault_of("ld.global.u8 %rs1, [%rd1+15];\n", {place}), "");
    EXPECT_THAT(bench.fault_of("ld.global.u8 %rs1, [%rd1+16];\n", {place}), HasSubstr("illegal address"));
    EXPECT_THAT(bench.fault_of("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];\n", {place}),
                HasSubstr("address"));
    EXPECT_THAT(bench.fault_of("ld.global.u64 %rd5, [0];\n", {place}), HasSubstr("illegal address"));
}

TEST(Address, BeyondSharedMemoryAndParametersIsFound) {
    Bench bench;
    EXPECT_THAT(bench.fault_of("st.shared.u64 [room+1024], %rd4;\n", {}),
                HasSubstr("beyond shared memory"));
    EXPECT_THAT(bench.fault_of("ld.param.u64 %rd5, [k_2+8];\n", {}), HasSubstr("beyond the parameters"));
}

TEST(Address, MisalignedIsFoundInEachMemory) {
    Bench bench;
    const auto place = bench.memory({0, 0, 0, 0});
    EXPECT_THAT(bench.fault_of("ld.global.u32 %r2, [%rd1+2];\n", {place}), HasSubstr("misaligned"));
    EXPECT_THAT(bench.fault_of("ld.global.v2.u64 {%rd5, %rd6}, [%rd1+8];\n", {place + 8 * (place / 8 % 2)}),
                HasSubstr("misaligned"));
    EXPECT_THAT(bench.fault_of("st.shared.u16 [room+1], %rs1;\n", {}), HasSubstr("misaligned"));
}

TEST(Unwritten, IsFoundInEachMemoryByTheByte) {
    Bench bench;
    const auto place = bench.unwritten(1);
    EXPECT_THAT(bench.fault_of("ld.global.u8 %rs1, [%rd1];\n", {place}),
                HasSubstr("global memory read before it is written"));
    const std::string only_first = "setp.ne.u32 %p1, %r1, 0;\n@%p1 bra END;\nst.global.u32 [%rd1], %r1;\n";
    EXPECT_EQ(bench.fault_of(only_first + "ld.global.u32 %r2, [%rd1];\nEND:\n", {place}), "");
    EXPECT_THAT(bench.fault_of(only_first + "ld.global.u64 %rd5, [%rd1];\nEND:\n", {place}),
                HasSubstr("before it is written"));
    EXPECT_THAT(bench.fault_of("ld.shared.u8 %rs1, [room];\n", {}),
                HasSubstr("shared memory read before it is written"));
    EXPECT_THAT(bench.fault_of("atom.shared.add.u32 %r2, [room], 1;\n", {}),
                HasSubstr("before it is written"));
}

const std::string own = "cvt.u32.u64 %r5, %rd4;\nmov.u32 %r6, room;\nadd.u32 %r5, %r5, %r6;\n";

TEST(Race, InSharedMemoryIsFoundOnEverySchedule) {
    Bench bench;
    // Each thread writes its own place and reads its neighbour's, with a barrier between and
    // without.
    const std::string write = own + "st.shared.u64 [%r5], %rd4;\n";
    const std::string read =
        "setp.eq.u32 %p1, %r1, 0;\n@%p1 bra END;\nld.shared.u64 %rd6, [%r5+-8];\nEND:\n";
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        EXPECT_EQ(bench.fault_of(write + "bar.sync 0;\n" + read, {}, 1, 64, seed), "");
        EXPECT_NE(bench.fault_of(write + read, {}, 1, 64, seed), "");
    }
    EXPECT_THAT(bench.fault_of(own + "st.shared.u64 [room], %rd4;\n", {}),
                HasSubstr("race in shared memory, a write beside a write"));
    EXPECT_THAT(bench.fault_of(
                    write + "bar.sync 0;\nld.shared.u64 %rd6, [room];\nst.shared.u64 [%r5], %rd4;\n", {}),
                HasSubstr("race in shared memory"));
}

TEST(Race, InGlobalMemoryIsFoundWithinABlockAndBetweenBlocks) {
    Bench bench;
    const auto place = bench.memory(std::vector<std::uint64_t>(64));
    EXPECT_THAT(bench.fault_of("st.global.u64 [%rd1], %rd4;\n", {place}),
                HasSubstr("race in global memory"));
    // A barrier orders only the threads of its block.
    const std::string first = "mov.u32 %r2, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n";
    const std::string by_one =
        first + "@!%p1 st.global.u64 [%rd1], 1;\nbar.sync 0;\nld.global.u64 %rd5, [%rd1];\n";
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        EXPECT_EQ(bench.fault_of(by_one, {place}, 1, 64, seed), "");
        EXPECT_THAT(bench.fault_of(by_one, {place}, 2, 64, seed), HasSubstr("race in global memory"));
        EXPECT_EQ(bench.fault_of("atom.global.add.u64 %rd5, [%rd1], 1;\n", {place}, 3, 64, seed), "");
        EXPECT_EQ(bench.fault_of("ld.global.u64 %rd5, [%rd1];\n", {place}, 3, 64, seed), "")
            << "all may read";
        EXPECT_THAT(
            bench.fault_of(
                first + "setp.eq.u32 %p2, %r2, 0;\n@%p2 bra READ;\natom.global.add.u64 %rd5, [%rd1], 1;\n"
                        "bra END;\nREAD:\nld.global.u64 %rd5, [%rd1];\nEND:\n",
                {place}, 2, 64, seed),
            HasSubstr("race in global memory"));
    }
}

TEST(Race, NeighboursOfOneWordAreNone) {
    Bench bench;
    const auto place = bench.memory(std::vector<std::uint64_t>(64));
    const std::string bytes = "cvt.u64.u32 %rd5, %r1;\nadd.s64 %rd5, %rd1, %rd5;\ncvt.u16.u32 %rs1, %r1;\n";
    EXPECT_EQ(bench.fault_of(bytes + "st.global.u8 [%rd5], %rs1;\n", {place}, 1, 64), "");
    EXPECT_THAT(
        bench.fault_of(bytes + "st.global.u8 [%rd5], %rs1;\nld.global.u32 %r2, [%rd1];\n", {place}, 1, 64),
        HasSubstr("race"));
}

/// Several lanes' reads are checked together, with the same result as one after another.
TEST(Race, OfManyWhoReadOnePlaceIsTheFirstOnes) {
    Bench bench;
    const auto place = bench.memory({1, 2});
    const auto written_by = [&](int thread, const std::string& then) {
        const std::string first = "setp.eq.u32 %p1, %r1, " + std::to_string(thread) + ";\n";
        return bench.fault_of(first + "@%p1 st.global.u64 [%rd1], %rd4;\n" + then, {place});
    };
    EXPECT_THAT(
        written_by(5, "ld.global.u64 %rd5, [%rd1];\n"),
        testing::AllOf(HasSubstr("a read beside a write by block 0 thread 5"), HasSubstr("thread 0, PTX")));
    EXPECT_THAT(
        written_by(0, "ld.global.u64 %rd5, [%rd1];\n"),
        testing::AllOf(HasSubstr("a read beside a write by block 0 thread 0"), HasSubstr("thread 1, PTX")));
    EXPECT_EQ(written_by(5, "@%p1 ld.global.u64 %rd5, [%rd1];\n"), "") << "its own";
    EXPECT_EQ(written_by(5, "bar.sync 0;\nld.global.u64 %rd5, [%rd1];\n"), "");
    EXPECT_EQ(written_by(5, "ld.global.u64 %rd5, [%rd1+8];\n"), "") << "beside it";
    EXPECT_THAT(bench.fault_of("ld.global.u64 %rd5, [%rd1];\nsetp.eq.u32 %p1, %r1, 0;\n"
                               "@%p1 st.global.u64 [%rd1], %rd4;\n",
                               {place}),
                HasSubstr("a write beside a read by block 0, several threads"));
}

TEST(Race, WithALaunchBeforeIsNone) {
    Bench bench;
    const auto place = bench.memory({0});
    const std::string first = "mov.u32 %r2, %ctaid.x;\nor.b32 %r2, %r2, %r1;\nsetp.eq.u32 %p1, %r2, 0;\n";
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        EXPECT_EQ(bench.fault_of("ld.global.u64 %rd5, [%rd1];\n", {place}, 4, 64, seed), "");
        EXPECT_EQ(bench.fault_of(first + "@%p1 st.global.u64 [%rd1], %rd4;\n", {place}, 4, 64, seed), "");
    }
}

TEST(Unwritten, IsKeptByTheByteAcrossTheWordsThatItIsKeptIn) {
    WrittenBytes written(128);
    written.write_few(56, 16);
    EXPECT_TRUE(written.all_few(56, 16));
    EXPECT_TRUE(written.all(56, 16));
    EXPECT_TRUE(written.all_few(71, 1));
    EXPECT_FALSE(written.all_few(55, 2));
    EXPECT_FALSE(written.all_few(64, 16));
    written.forget(128);
    EXPECT_FALSE(written.all_few(60, 1));
}

const std::string half = "and.b32 %r2, %r1, 1;\nsetp.eq.u32 %p1, %r2, 1;\n";

TEST(Barrier, ThatNotAllReachIsFound) {
    Bench bench;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        EXPECT_THAT(bench.fault_of(half + "@%p1 bra END;\nbar.sync 0;\nEND:\n", {}, 1, 64, seed),
                    HasSubstr("a barrier that not all threads of the block reach: 32 have ended"));
        EXPECT_THAT(
            bench.fault_of(half + "@%p1 bra OTHER;\nbar.sync 0;\nbra END;\nOTHER:\nbar.sync 0;\nEND:\n", {},
                           1, 64, seed),
            HasSubstr("a barrier while others of the block wait at another"));
        EXPECT_EQ(bench.fault_of("bar.sync 0;\nbar.sync 0;\n", {}, 3, 96, seed), "");
    }
}

TEST(Vote, ThatNotAllMembersReachIsFound) {
    Bench bench;
    const std::string vote = "vote.sync.ballot.b32 %r3, %p1, ";
    EXPECT_THAT(bench.fault_of(half + "@%p1 bra END;\n" + vote + "-1;\nEND:\n", {}), HasSubstr("a vote "));
    EXPECT_THAT(bench.fault_of(half + "@%p1 bra END;\n" + vote + "-1;\nEND:\nbar.sync 0;\n", {}),
                HasSubstr("a vote that not all of its members reach"));
    EXPECT_THAT(bench.fault_of(half + vote + "2147483647;\n", {}),
                HasSubstr("not a member of its own vote"));
    EXPECT_THAT(bench.fault_of(half + "selp.b32 %r4, 1, -1, %p1;\n" + vote + "%r4;\n", {}),
                HasSubstr("different members"));
    EXPECT_EQ(bench.fault_of(half + "@%p1 bra ODD;\n" + vote + "1431655765;\nbra END;\nODD:\n" + vote +
                                 "-1431655766;\nEND:\n",
                             {}),
              "");
}

TEST(Shuffle, ThatNotAllMembersReachOrThatAsksAStrangerIsFound) {
    Bench bench;
    const std::string shuffle = "shfl.sync.up.b32 %r3|%p2, %r1, 1, 0, ";
    EXPECT_THAT(bench.fault_of(half + "@%p1 bra END;\n" + shuffle + "-1;\nEND:\nbar.sync 0;\n", {}),
                HasSubstr("a shuffle that not all of its members reach"));
    EXPECT_THAT(bench.fault_of(half + shuffle + "2147483647;\n", {}),
                HasSubstr("not a member of its own shuffle"));
    // The odd ones alone: each would have its even neighbour's.
    EXPECT_THAT(bench.fault_of(half + "@!%p1 bra END;\n" + shuffle + "-1431655766;\nEND:\n", {}),
                HasSubstr("a shuffle from a thread that is not a member, "));
    EXPECT_EQ(bench.fault_of(half + shuffle + "-1;\n", {}), "");
}

std::string refused(const std::string& body) {
    try {
        static_cast<void>(parse(kernel_of(body)));
    } catch (const Fault& fault) {
        return fault.what();
    }
    return {};
}

TEST(Ptx, WhatTheMachineDoesNotKnowIsAnErrorWithItsLine) {
    EXPECT_THAT(refused("lg2.approx.f32 %f1, %f2;\n"),
                testing::AllOf(HasSubstr("PTX line 22: "),
                               HasSubstr("does not know, lg2.approx.f32: lg2.approx.f32 %f1, %f2;")));
    EXPECT_THAT(refused("bar.sync 1;\n"), HasSubstr("barrier of the whole block only"));
    EXPECT_THAT(refused("mov.u32 %r1, %tid.y;\n"), HasSubstr("does not know"));
    EXPECT_THAT(refused("bra NOWHERE;\n"), HasSubstr("no label NOWHERE"));
    EXPECT_THAT(refused("shfl.sync.up.b64 %rd5, %rd4, 1, 0, -1;\n"), HasSubstr("shuffles of 32 bits"));
    EXPECT_THAT(refused("@%p1 shfl.sync.up.b32 %r2, %r1, 1, 0, -1;\n"), HasSubstr("without a guard"));
    EXPECT_THAT(refused("add.s32 %r1, %r2;\n"), HasSubstr("cannot be read"));
    EXPECT_THAT(refused("call.uni other;\n"), HasSubstr("call.uni"));
    EXPECT_THAT(refused(".local .b8 x[8];\n"), HasSubstr("directive"));
    EXPECT_THROW(static_cast<void>(parse(".visible .entry k(\n.param .u64 a\n)\n{\n")), Fault);
    EXPECT_THROW(static_cast<void>(parse(".global .u32 counter;\n")), Fault);
}

} // namespace
} // namespace truestep::simulator::tests
