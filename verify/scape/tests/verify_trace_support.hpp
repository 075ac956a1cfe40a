#pragma once

#include <cmath>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <truestep/verify/report.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "support.hpp"

// Shared by the tests of verify_trace: a trace to change, and the expected place of the first
// divergence.

namespace truestep::verify::scape {

inline float next_up(float value) {
    return std::nextafter(value, std::numeric_limits<float>::infinity());
}
inline float negated(float value) {
    return -value;
}
/// A change that exceeds the roundings of a step, but changes no selection.
inline float a_thousandth_more(float value) {
    return value * 1.001F;
}
inline float one(float) {
    return 1.0F;
}
inline float negative_zero(float) {
    return -0.0F;
}
inline float nan(float) {
    return std::numeric_limits<float>::quiet_NaN();
}
inline float infinity(float) {
    return std::numeric_limits<float>::infinity();
}

inline TraceVerdict verify_from(const std::filesystem::path& path, ReferenceStart from,
                                Level level = Level::exact()) {
    VerifyOptions options;
    options.from = from;
    options.level = level;
    return verify_trace(path, options);
}

/// The expected place of the first divergence.
struct Place {
    Index step = 0;
    Phase phase = Phase::check;
    std::string result;
    int rank = all_ranks;
    Index coordinate = 0;
    std::string tensor;
    Index index = 0; ///< in the tensor
};

inline void expect_first(const TraceVerdict& verdict, const Place& expected) {
    EXPECT_EQ(verdict.status, Status::failed);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, expected.step);
    EXPECT_EQ(verdict.first->phase, name(expected.phase));
    EXPECT_EQ(verdict.first->result, expected.result);
    EXPECT_EQ(verdict.first->rank, expected.rank);
    ASSERT_TRUE(verdict.first->index.has_value());
    EXPECT_EQ(*verdict.first->index, expected.coordinate);
    const problem::Layout& layout = verdict.layout;
    const std::size_t tensor = layout.tensor_at(*verdict.first->index);
    EXPECT_EQ(layout.tensors()[tensor].name, expected.tensor);
    EXPECT_EQ(*verdict.first->index - layout.begin(tensor), expected.index);
    EXPECT_TRUE(support::contains(text_report(verdict), place(*verdict.first, layout)));
}

class VerifyTraceTest : public testing::Test {
  protected:
    VerifyTraceTest() : path_(folder_ / "trace.safetensors") {}

    /// Checks the trace's first `steps` steps.
    [[nodiscard]] TraceVerdict verify_steps(Index steps, ReferenceStart from) const {
        const auto part = folder_ / "part.safetensors";
        support::FileImage image(path_);
        image.keep_steps(steps);
        image.save(part);
        return verify_from(part, from);
    }

    void change(const std::function<void(support::FileImage&)>& change_image) const {
        support::FileImage image(path_);
        change_image(image);
        image.save(path_);
    }

    support::TemporaryFolder folder_;
    std::filesystem::path path_;
};

} // namespace truestep::verify::scape
