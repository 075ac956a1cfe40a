#pragma once

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/verify/scape/record.hpp>

#include "support.hpp"

namespace truestep::verify {

using Arguments = std::vector<std::string>;

/// Expects what every error of usage or input gives: status 2, one line on standard error.
inline void expect_bad_input(const scape::support::ToolResult& result, const std::string& part) {
    EXPECT_EQ(result.status, 2);
    EXPECT_EQ(scape::support::lines(result.errors).size(), 1U) << result.errors;
    EXPECT_TRUE(result.errors.starts_with("truestep")) << result.errors;
    EXPECT_TRUE(scape::support::contains(result.errors, part)) << result.errors;
}

class ToolTest : public testing::Test {
  protected:
    ToolTest() : trace_((folder_ / "trace.safetensors").string()) {}

    void record_good() const { record(trace_, scape::support::small_run()); }
    void record_wrong() const {
        record_good();
        scape::support::set_element(trace_, "step/0002/parameters", 33, -0.5F);
    }
    void record_mistrusted() const {
        scape::RecordOptions options = scape::support::small_run();
        options.density = problem::DensitySchedule::constant(1.0);
        record(trace_, options);
        scape::support::FileImage image(trace_);
        for (scape::support::FileImage::Tensor& tensor : image.tensors)
            if (auto* values = std::get_if<std::vector<float>>(&tensor.data))
                std::fill(values->begin(), values->end(), 0.0F);
        image.save(trace_);
    }

    [[nodiscard]] std::string file(const std::string& name) const { return (folder_ / name).string(); }

    scape::support::TemporaryFolder folder_;
    std::string trace_;
};

} // namespace truestep::verify
