// Tests reader and writer with a schema of no real system.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/trace/config.hpp>
#include <truestep/trace/fingerprint.hpp>
#include <truestep/trace/reader.hpp>
#include <truestep/trace/writer.hpp>

namespace truestep::trace {
namespace {

constexpr Kind input{"pushed", true, false, false};
constexpr Kind own{"model", true, false, false};
constexpr Kind common{"anchor", false, false, false};
constexpr Kind bits{"active", false, true, false};
constexpr Kind between{"received", false, false, true};

Schema synthetic(const std::string& config, const std::string& what) {
    const nlohmann::json object = parse_json(config, what);
    ObjectReader reader(object, what);
    EXPECT_EQ(reader.text("algorithm"), "made-up");
    Schema schema{config,
                  parse_layout(reader.list("tensors"), what),
                  static_cast<int>(reader.integer("workers")),
                  reader.integer("rounds"),
                  {},
                  {input},
                  {{own, "drift"}, {common, "mix"}, {bits, "mix"}, {between, "mix"}}};
    reader.finish();
    schema.series = {{"rate", DataType::f64, static_cast<std::uint64_t>(schema.steps)},
                     {"start", DataType::f32, static_cast<std::uint64_t>(schema.layout.size())}};
    return schema;
}

constexpr const char* config =
    R"({"algorithm":"made-up","workers":3,"rounds":2,"tensors":[{"name":"w","size":9,"always_dense":false}]})";

std::vector<float> vector_of(Index step, int rank, float what) {
    std::vector<float> values;
    for (int i = 0; i < 9; ++i)
        values.push_back(static_cast<float>(step) + 10.0F * static_cast<float>(rank) +
                         100.0F * static_cast<float>(i) + what);
    return values;
}

class TraceFileTest : public testing::Test {
  protected:
    TraceFileTest()
        : path_(std::filesystem::temp_directory_path() /
                ("trace_file_test_" + std::to_string(getpid()) + ".safetensors")) {}
    ~TraceFileTest() override { std::filesystem::remove(path_); }

    void write(Replicas replicas, bool intermediates, bool ranks_differ = false) const {
        Writer writer(path_, synthetic(config, "config"), "a test", intermediates, replicas);
        writer.series("rate", std::vector<double>{0.5, 0.25});
        writer.series("start", vector_of(0, 0, 0.0F));
        for (Index step = 1; step <= 2; ++step) {
            writer.begin_step();
            for (int rank = 0; rank < 3; ++rank)
                writer.input(input, rank, vector_of(step, rank, 0.25F));
            writer.result(own, [&](int rank) { return std::span<const float>(keep(step, rank, 0.5F)); });
            writer.result(common, [&](int rank) {
                return std::span<const float>(keep(step, ranks_differ ? rank : 0, 0.75F));
            });
            writer.result(bits, [&](int) { return std::span<const std::uint8_t>(bits_); });
            writer.result(between, [&](int) { return std::span<const float>(keep(step, 0, 0.125F)); });
        }
        writer.finish();
    }

    [[nodiscard]] Reader read() const { return {path_, synthetic}; }

    const std::vector<float>& keep(Index step, int rank, float what) const {
        return kept_ = vector_of(step, rank, what);
    }

    std::filesystem::path path_;
    std::vector<std::uint8_t> bits_{0x81, 0x01};
    mutable std::vector<float> kept_;
};

std::string error_of(const auto& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.what();
    }
    return "nothing was thrown";
}

TEST_F(TraceFileTest, WhatIsWrittenIsReadForEveryRank) {
    write(Replicas::none, true);
    const Reader reader = read();
    EXPECT_EQ(algorithm_of(path_), "made-up");
    EXPECT_EQ(reader.source(), "a test");
    EXPECT_EQ(reader.series_f64("rate"), (std::vector<double>{0.5, 0.25}));
    EXPECT_EQ(reader.series_f32("start"), vector_of(0, 0, 0.0F));
    for (Index step = 1; step <= 2; ++step) {
        for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(reader.input(input, step, rank), vector_of(step, rank, 0.25F));
            EXPECT_EQ(reader.values(own, step, rank), vector_of(step, rank, 0.5F));
        }
        EXPECT_EQ(reader.values(common, step, 0), vector_of(step, 0, 0.75F));
        EXPECT_EQ(reader.values(between, step, 0), vector_of(step, 0, 0.125F));
        EXPECT_EQ(reader.mask(bits, step), bits_);
    }
    EXPECT_TRUE(reader.states_recorded());
    EXPECT_TRUE(reader.unknown().empty());
    EXPECT_TRUE(reader.missing().empty());
    EXPECT_EQ(reader.replica_counts().once, 4);
}

TEST_F(TraceFileTest, CopiesAreEachRanksOwnAndFingerprintsOfThem) {
    write(Replicas::copies, false, true);
    ReplicatedValues<float> held = read().replicated_values(common, 2);
    EXPECT_FALSE(held.shared.has_value());
    ASSERT_EQ(held.copies.size(), 3U);
    for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(held.copies[static_cast<std::size_t>(rank)], vector_of(2, rank, 0.75F));
    EXPECT_EQ(read().replica_counts().copies, 4);
    EXPECT_EQ(read().values(between, 1, 0), std::nullopt) << "was not asked for";

    write(Replicas::fingerprints, false, true);
    held = read().replicated_values(common, 2);
    EXPECT_EQ(held.shared, vector_of(2, 0, 0.75F));
    ASSERT_TRUE(held.fingerprints.has_value());
    for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ((*held.fingerprints)[static_cast<std::size_t>(rank)],
                  fingerprint(vector_of(2, rank, 0.75F)));
    EXPECT_EQ(read().replicated_mask(bits, 1).fingerprints,
              (std::vector<std::uint64_t>(3, fingerprint(bits_))));
}

/// Writes a file with metadata and without tensors.
void bare(const std::filesystem::path& path, const std::string& format, const std::string& config_text) {
    storage::SafetensorsWriter writer(
        path, {{"format", format}, {"version", "1"}, {"source", "a test"}, {"config", config_text}});
    writer.finish();
}

TEST_F(TraceFileTest, WhatIsNoTraceIsRefusedInOneLineWithItsPath) {
    bare(path_, "something else", config);
    EXPECT_EQ(error_of([&] { static_cast<void>(algorithm_of(path_)); }),
              path_.string() + ": its metadata has format 'something else'; this tool reads format "
                               "'scape-trace'");
    bare(path_, "scape-trace", "{}");
    EXPECT_EQ(error_of([&] { static_cast<void>(algorithm_of(path_)); }),
              path_.string() + ": config has no 'algorithm'; see section 9 of the specification");
    bare(path_, "scape-trace", config);
    EXPECT_EQ(error_of([&] { static_cast<void>(read()); }),
              path_.string() + ": tensor rate is missing; section 9 asks for it");
}

TEST_F(TraceFileTest, ATraceWithoutResultsNamesThoseThatItMightHold) {
    const Schema schema = synthetic(config, "config");
    storage::SafetensorsWriter writer(
        path_, {{"format", "scape-trace"}, {"version", "1"}, {"source", "a test"}, {"config", config}});
    writer.declare("rate", DataType::f64, {2});
    writer.declare("start", DataType::f32, {9});
    for (Index step = 1; step <= 2; ++step)
        for (int rank = 0; rank < 3; ++rank)
            writer.declare(tensor_name(input, step, rank), DataType::f32, {9});
    writer.write_f64("rate", std::vector<double>{0.5, 0.25});
    writer.write_f32("start", vector_of(0, 0, 0.0F));
    for (Index step = 1; step <= 2; ++step)
        for (int rank = 0; rank < 3; ++rank)
            writer.write_f32(tensor_name(input, step, rank), vector_of(step, rank, 0.25F));
    writer.finish();
    EXPECT_EQ(error_of([&] { static_cast<void>(read()); }),
              path_.string() + ": the trace holds no result of any step, so there is nothing to compare; "
                               "record some of model, anchor, active");
}

} // namespace
} // namespace truestep::trace
