// Tests GASLoC's checkpoints: the same and other numbers of workers, damage and other settings.
#include <truestep/distributed/gasloc/checkpoint.hpp>

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <type_traits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::distributed::gasloc {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Checkpoint : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (fs::temp_directory_path() / "gasloc-XXXXXX").string();
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        folder = path;
    }
    void TearDown() override { fs::remove_all(folder); }

    static State some(int worker, Index rounds) {
        const auto value = static_cast<float>(worker);
        return {rounds, 10 + worker, {value, 1.0F}, {2.0F, value}, {-0.0F, value}, {0.5F, value}};
    }
    fs::path saved(Index rounds, int workers) {
        fs::path checkpoint;
        for (int worker = 0; worker < workers; ++worker)
            checkpoint = save(folder, settings, some(worker, rounds), worker, workers);
        return checkpoint;
    }
    static std::string error_of(const std::function<void()>& act) {
        try {
            act();
        } catch (const Error& error) {
            return error.what();
        }
        return "no error";
    }

    fs::path folder;
    Settings settings;
};

TEST_F(Checkpoint, AsManyWorkersGetWhatTheyHad) {
    const fs::path checkpoint = saved(7, 3);
    EXPECT_EQ(latest(folder), checkpoint);
    for (int worker = 0; worker < 3; ++worker)
        EXPECT_EQ(load(checkpoint, settings, worker, 3), some(worker, 7));
}

TEST_F(Checkpoint, OthersGetTheMean) {
    const State state = load(saved(7, 3), settings, 4, 5);
    EXPECT_THAT(state.theta, testing::ElementsAre(1.0F, 1.0F));
    EXPECT_THAT(state.v, testing::ElementsAre(0.5F, 1.0F));
    EXPECT_EQ(state.s, 12);
    EXPECT_EQ(state.rounds, 7);
}

TEST_F(Checkpoint, OneThatIsNotCompleteIsPassedOver) {
    EXPECT_EQ(latest(folder), std::nullopt);
    EXPECT_EQ(latest(folder / "none"), std::nullopt);
    const fs::path good = saved(7, 3);
    const fs::path more = saved(8, 3);
    fs::remove(more / "worker-1-of-3.safetensors");
    fs::create_directory(folder / "round-9");
    std::ofstream(folder / "round-0000000010") << "no folder";
    fs::create_directories(folder / "round-0000000006-old");
    fs::remove(folder / "round-0000000010");
    EXPECT_EQ(latest(folder), good);
    EXPECT_THAT(error_of([&] { static_cast<void>(load(more, settings, 0, 3)); }),
                HasSubstr("not all workers' files are there"));
}

TEST_F(Checkpoint, AnyDamagedByteIsNoticed) {
    const fs::path file = saved(7, 1) / "worker-0-of-1.safetensors";
    std::ifstream in(file, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    ASSERT_GT(good.size(), 64U);
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        std::ofstream(file, std::ios::binary) << bad;
        // A space of the header may become another character that JSON treats as one; then nothing
        // is lost.
        bool same = false;
        const std::string error =
            error_of([&] { same = load(file.parent_path(), settings, 0, 1) == some(0, 7); });
        EXPECT_TRUE(error != "no error" || same) << "byte " << at;
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{8}, good.size() / 2, good.size() - 1}) {
        std::ofstream(file, std::ios::binary | std::ios::trunc) << good.substr(0, size);
        EXPECT_NE(error_of([&] { static_cast<void>(load(file.parent_path(), settings, 0, 1)); }),
                  "no error");
    }
}

TEST_F(Checkpoint, WhatIsNotFiniteIsNotSaved) {
    State state = some(0, 7);
    state.before[1] = std::numeric_limits<float>::infinity();
    EXPECT_THAT(error_of([&] { save(folder, settings, state, 0, 1); }),
                HasSubstr("before of round 7 is not finite"));
    EXPECT_EQ(latest(folder), std::nullopt);
}

/// Another value of a setting.
template <class Value>
void change(Value& value) {
    if constexpr (std::is_same_v<Value, bool>)
        value = !value;
    else if constexpr (std::is_enum_v<Value>)
        value = static_cast<Value>(value == Value{} ? 1 : 0);
    else
        value = value + Value{1};
}

// A new setting is refused, too, unless users may change it in the middle of a run.
TEST_F(Checkpoint, OfAnyOtherSettingIsRefusedByName) {
    const fs::path checkpoint = saved(7, 2);
    const std::set<std::string> of_the_user{"weight_decay", "eta", "alpha", "gamma", "allow_unstable"};
    visit_settings(settings, [&](const std::string& name, const auto&, const auto&...) {
        Settings other = settings;
        visit_settings(other, [&](const std::string& one, auto& value, const auto&...) {
            if (one == name)
                change(value);
        });
        const std::string error = error_of([&] { static_cast<void>(load(checkpoint, other, 0, 2)); });
        EXPECT_THAT(error, of_the_user.contains(name) ? HasSubstr("no error") : HasSubstr(name));
    });
}

TEST_F(Checkpoint, OfOtherSettingsIsRefused) {
    const fs::path checkpoint = saved(7, 2);
    Settings other = settings;
    other.seed = 5;
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, other, 0, 2)); }),
                testing::AllOf(HasSubstr("seed 1"), HasSubstr("seed 5")));
    other = settings;
    other.law = Law::ring;
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, other, 0, 2)); }), HasSubstr("law ring"));
    EXPECT_THAT(error_of([&] { static_cast<void>(load(folder / "no", settings, 0, 2)); }),
                HasSubstr("there is no such checkpoint"));
}

} // namespace
} // namespace truestep::distributed::gasloc
