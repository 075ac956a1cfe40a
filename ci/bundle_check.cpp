// Uses something of each package of a bundle (ci/bundle-test builds it).
#include <CLI/CLI.hpp>
#include <Eigen/Core>
#include <benchmark/benchmark.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>
#include <rapidcheck.h>

namespace {

TEST(Bundle, EachPackageWorks) {
    EXPECT_EQ(Eigen::Vector3f(1.0F, 2.0F, 3.0F).sum(), 6.0F);
    EXPECT_THAT(nlohmann::json::parse("[1, 2]").get<std::vector<int>>(), testing::ElementsAre(1, 2));
    CLI::App app;
    int value = 0;
    app.add_option("--value", value);
    app.parse("--value 3");
    EXPECT_EQ(value, 3);
    EXPECT_TRUE(rc::check("addition commutes", [](int a, int b) { RC_ASSERT(a + 0L + b == b + 0L + a); }));
    benchmark::RegisterBenchmark("nothing", [](benchmark::State& state) {
        for (auto _ : state)
            benchmark::ClobberMemory();
    });
    EXPECT_EQ(benchmark::RunSpecifiedBenchmarks("nothing"), 1U);
}

} // namespace
