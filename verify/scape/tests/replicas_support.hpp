#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/trace/fingerprint.hpp>
#include <truestep/verify/scape/record.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

#include "support.hpp"

// Shared by the tests of replicas: small traces that hold them, as copies or as fingerprints.

namespace truestep::verify::scape {

inline std::uint64_t fingerprint_of(const support::FileImage::Tensor& tensor) {
    if (const auto* floats = std::get_if<std::vector<float>>(&tensor.data))
        return trace::fingerprint(std::span<const float>(*floats));
    return trace::fingerprint(
        std::span<const std::uint8_t>(std::get<std::vector<std::uint8_t>>(tensor.data)));
}

class ReplicasTest : public testing::Test {
  protected:
    ReplicasTest() : path_(folder_ / "trace.safetensors") {}

    void record_small(trace::Replicas replicas, int workers = 3,
                      problem::Algorithm algorithm = problem::Algorithm::scape) const {
        problem::HyperParameters settings;
        settings.weight_decay = 0.1;
        RecordOptions options = support::small_run(algorithm, settings, workers);
        options.replicas = replicas;
        record(path_, options);
    }

    template <class Change>
    void change(Change change_image) const {
        support::FileImage image(path_);
        change_image(image);
        image.save(path_);
    }

    [[nodiscard]] TraceVerdict verify(ReferenceStart from = ReferenceStart::recorded,
                                      Level level = Level::exact()) const {
        VerifyOptions options;
        options.from = from;
        options.level = level;
        return verify_trace(path_, options);
    }

    [[nodiscard]] std::string refusal() const {
        return support::error_of([&] { static_cast<void>(verify_trace(path_, {})); });
    }

    /// Checks in both ways, at both levels that a trace can have.
    template <class Check>
    void everywhere(Check check) const {
        for (const ReferenceStart from : {ReferenceStart::recorded, ReferenceStart::start})
            for (const Level& level : {Level::exact(), Level::rel()}) {
                SCOPED_TRACE(name(from) + ", " + name(level));
                check(verify(from, level));
            }
    }

    /// Turns a trace with copies into one with fingerprints of all ranks and rank 0's vector.
    void copies_to_fingerprints() const {
        support::FileImage image(path_);
        std::vector<support::FileImage::Tensor> tensors;
        for (support::FileImage::Tensor& tensor : image.tensors) {
            const auto rank = tensor.name.rfind("/rank");
            const std::string result = tensor.name.substr(0, rank);
            bool replicated = false;
            for (const ResultKind& kind : result_kinds)
                replicated =
                    replicated || (is_replicated(kind) && result.ends_with("/" + std::string(kind.name)));
            if (rank == std::string::npos || !replicated) {
                tensors.push_back(std::move(tensor));
                continue;
            }
            if (tensor.name.ends_with("/rank0"))
                tensors.push_back({result + "/fingerprint", {0}, std::vector<std::uint64_t>{}});
            for (support::FileImage::Tensor& other : tensors)
                if (other.name == result + "/fingerprint") {
                    std::get<std::vector<std::uint64_t>>(other.data).push_back(fingerprint_of(tensor));
                    ++other.shape[0];
                }
            if (tensor.name.ends_with("/rank0")) {
                tensor.name = result;
                tensors.push_back(std::move(tensor));
            }
        }
        image.tensors = std::move(tensors);
        image.save(path_);
    }

    support::TemporaryFolder folder_;
    std::filesystem::path path_;
};

/// Rank 2 leaves out the decay of step 3: w + lr * wd * w_before in place of w, at all coordinates.
inline void skip_decay_on_rank_2(support::FileImage& image) {
    const auto before = std::get<std::vector<float>>(image.at("step/0002/parameters/rank2").data);
    const double rate = std::get<std::vector<double>>(image.at("learning_rate").data)[2];
    auto& parameters = std::get<std::vector<float>>(image.at("step/0003/parameters/rank2").data);
    for (std::size_t i = 0; i < parameters.size(); ++i)
        parameters[i] += static_cast<float>(rate * 0.1 * static_cast<double>(before[i]));
}

inline void expect_place(const TraceVerdict& verdict, Index step, const std::string& result, int rank,
                         std::optional<Index> coordinate) {
    EXPECT_EQ(verdict.status, Status::failed);
    ASSERT_TRUE(verdict.first.has_value());
    EXPECT_EQ(verdict.first->step, step);
    EXPECT_EQ(verdict.first->result, result);
    EXPECT_EQ(verdict.first->rank, rank);
    EXPECT_EQ(verdict.first->index, coordinate);
}

} // namespace truestep::verify::scape
