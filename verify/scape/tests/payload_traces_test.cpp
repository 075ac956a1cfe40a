// Traces whose payloads were rounded (section 21).
#include <cstddef>
#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include <scape/verify/record.hpp>

#include "verify_trace_support.hpp"

namespace scape::verify {
namespace {

using support::set_element;

void expect_passes(const std::filesystem::path& path) {
    for (const From from : {From::recorded, From::start})
        for (const Level& level : {Level::exact(), Level::rel()}) {
            const TraceVerdict verdict = verify_from(path, from, level);
            EXPECT_EQ(verdict.status, Status::passed) << text_report(verdict);
        }
}

TEST_F(VerifyTraceTest, AGoodTraceOfBf16PassesAndNeitherItsRoundingNorItsRestMayBeOff) {
    RecordOptions options = support::small_run();
    options.problem.settings.payload = problem::Payload::bf16;
    options.intermediates = true;
    record(path_, options);
    expect_passes(path_);
    // A mean that is off by what bf16 rounds is off by far more than fp32 may be, unless its bound is lost.
    const support::SafetensorsFile file(path_);
    const std::vector<float> exchanged = file.read_f32("step/0002/exchanged");
    Index off = 0;
    Index noticed = 0;
    for (Index i = 0; i < static_cast<Index>(exchanged.size()); ++i) {
        const float M = exchanged[static_cast<std::size_t>(i)];
        if (M == 0.0F)
            continue;
        record(path_, options);
        set_element(path_, "step/0002/exchanged", i, M * (1.0F + 0x1p-9F));
        ++off;
        noticed += verify_from(path_, From::recorded, Level::rel()).first ? 1 : 0;
    }
    EXPECT_GT(off, 10);
    EXPECT_GE(noticed, off - off / 10);
}

TEST_F(VerifyTraceTest, AGoodTraceOfE5m2PassesAndOneOfAnotherScaleDoesNot) {
    RecordOptions options = support::small_run();
    options.problem.settings.payload = problem::Payload::e5m2;
    options.intermediates = true;
    for (const auto data : {problem::DataClass::normal, problem::DataClass::wide}) {
        options.data = data;
        record(path_, options);
        expect_passes(path_);
    }
    // What its own scale lets saturate another sends whole: the residual of the greatest value tells.
    const support::SafetensorsFile file(path_);
    const std::vector<float> local = file.read_f32("step/0002/local/rank0");
    const std::vector<float> before = file.read_f32("step/0002/residual/rank0");
    std::size_t lost = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
        if (before[i] != 0.0F && before[i] != local[i]) {
            record(path_, options);
            set_element(path_, "step/0002/residual/rank0", static_cast<Index>(i), 0.0F);
            EXPECT_TRUE(verify_from(path_, From::recorded, Level::exact()).first);
            ++lost;
        }
    EXPECT_GT(lost, 0U) << "nothing was rounded";
}

} // namespace
} // namespace scape::verify
