// Tests SCAPE's checkpoints: exact continuation, other numbers of ranks, and damaged files.
#include <truestep/distributed/scape/checkpoint.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <truestep/optimizer.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "manifest.hpp"

namespace truestep::distributed::scape {
namespace {

namespace fs = std::filesystem;
using problem::DataClass;
using problem::Index;

constexpr double learning_rate = 0.01;

const Layout& model() {
    static const Layout layout({{"embed", 300, false}, {"norm", 9, true}, {"mlp", 201, false}});
    return layout;
}

truestep::Settings settings(PartitionRule partition = PartitionRule::by_shard) {
    truestep::Settings result;
    result.density = DensitySchedule::geometric(0.5, 0.05, 5);
    result.partition = partition;
    return result;
}

std::vector<float> initial() {
    return problem::initial_parameters(DataClass::normal, 3, model().size());
}

std::vector<float> gradient(int rank, Index step) {
    std::vector<float> g;
    for (Index i = 0; i < model().size(); ++i)
        g.push_back(problem::gradient_value(DataClass::normal, 3, rank, step, i));
    return g;
}

void take_steps(Optimizer& optimizer, int rank, Index first, Index last) {
    for (Index step = first; step <= last; ++step)
        optimizer.step(gradient(rank, step), learning_rate);
}

void expect_same(const RankState& a, const RankState& b) {
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.parameters, b.parameters);
    EXPECT_EQ(a.residual, b.residual);
    EXPECT_EQ(a.packed_moment, b.packed_moment);
    for (std::size_t word = 0; word < a.current.word_count(); ++word) {
        EXPECT_EQ(a.current.words()[word], b.current.words()[word]);
        EXPECT_EQ(a.coming.words()[word], b.coming.words()[word]);
    }
}

/// A separate folder for each test, removed afterwards.
class Checkpoint : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = testing::TempDir() + "truestep_checkpoint_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override { fs::remove_all(folder_); }

    /// Saves after `steps` steps of `workers` ranks.
    fs::path save(int workers, Index steps, const truestep::Settings& with = settings(),
                  const std::string& sub = "") const {
        fs::path path;
        run_ranks(workers, [&](Communicator& communicator) {
            const auto optimizer = make_optimizer(model(), with, communicator, initial());
            take_steps(*optimizer, communicator.rank(), 1, steps);
            const fs::path saved = save_checkpoint(*optimizer, communicator, folder_ / sub);
            if (communicator.rank() == 0)
                path = saved;
        });
        return path;
    }

    /// Restoring must fail on all ranks with this text, and change nothing.
    void expect_refused(const fs::path& checkpoint, const std::string& text,
                        const truestep::Settings& with = settings()) const {
        run_ranks(2, [&](Communicator& communicator) {
            const auto optimizer = make_optimizer(model(), with, communicator, initial());
            take_steps(*optimizer, communicator.rank(), 1, 2);
            const RankState before = optimizer->state();
            try {
                restore_checkpoint(*optimizer, communicator, checkpoint);
                ADD_FAILURE() << "not refused: " << text;
            } catch (const Error& error) {
                const std::string message = error.what();
                EXPECT_NE(message.find(text), std::string::npos) << message;
                EXPECT_EQ(message.find('\n'), std::string::npos) << message;
            }
            expect_same(optimizer->state(), before);
        });
    }

    fs::path folder_;
};

TEST_F(Checkpoint, ContinuingEqualsNeverHavingStoppedAtEveryStep) {
    for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor})
        for (Index at = 0; at <= 6; ++at) {
            const fs::path saved = save(3, at, settings(partition));
            run_ranks(3, [&](Communicator& communicator) {
                const auto through = make_optimizer(model(), settings(partition), communicator, initial());
                take_steps(*through, communicator.rank(), 1, 8);
                // Starts from other values, so that nothing is right before the restore.
                const std::vector<float> elsewhere(static_cast<std::size_t>(model().size()), 7.0F);
                const auto restored = make_optimizer(model(), settings(partition), communicator, elsewhere);
                restore_checkpoint(*restored, communicator, saved);
                EXPECT_EQ(restored->steps(), at);
                take_steps(*restored, communicator.rank(), at + 1, 8);
                expect_same(restored->state(), through->state());
            });
        }
}

/// A residual may overflow on one rank, which halts nobody.
TEST_F(Checkpoint, AResidualThatIsNotFiniteIsRefusedOnAllRanks) {
    fs::path saved;
    run_ranks(2, [&](Communicator& communicator) {
        const auto optimizer = make_optimizer(model(), settings(), communicator, initial());
        take_steps(*optimizer, communicator.rank(), 1, 2);
        RankState state = optimizer->state();
        Index place = 0; // one that gets a moment in the next step, and is not sent
        while (!state.current.test(place) || state.coming.test(place))
            ++place;
        constexpr float most = std::numeric_limits<float>::max();
        state.packed_moment[static_cast<std::size_t>(state.current.offset(place))] = most;
        if (communicator.rank() == 1)
            state.residual[static_cast<std::size_t>(place)] = most;
        optimizer->restore(state);
        take_steps(*optimizer, communicator.rank(), 3, 3);
        const fs::path folder = save_checkpoint(*optimizer, communicator, folder_);
        if (communicator.rank() == 0)
            saved = folder;
    });
    expect_refused(saved, "residual");
}

TEST_F(Checkpoint, AnotherNumberOfWorkersContinuesAsTheReferenceDoes) {
    constexpr Index at = 4;
    for (const auto& workers_of : {std::pair{3, 2}, {3, 1}, {2, 5}, {1, 4}, {4, 3}})
        for (const auto partition : {PartitionRule::by_shard, PartitionRule::by_tensor}) {
            const int before = workers_of.first; // clang 14 captures no structured bindings
            const int after = workers_of.second;
            const fs::path saved = save(before, at, settings());
            const auto problem_of = [](int workers, PartitionRule rule) {
                return problem::make_problem(problem::Algorithm::scape, workers, model(), rule, {});
            };
            const auto gradients = [](int workers, Index step) {
                reference::PerRank<float> all;
                for (int rank = 0; rank < workers; ++rank) {
                    const auto g = gradient(rank, step);
                    all.emplace_back(Eigen::Map<const reference::Vector<float>>(g.data(), model().size()));
                }
                return all;
            };
            const auto w = initial();
            reference::scape::Scape<float> first(
                problem_of(before, PartitionRule::by_shard), settings().density,
                Eigen::Map<const reference::Vector<float>>(w.data(), model().size()));
            for (Index step = 1; step <= at; ++step)
                first.step(gradients(before, step), learning_rate);
            reference::scape::Scape<float> second(problem_of(after, partition), settings().density,
                                                  first.state.w);
            second.state = reference::scape::redistribute(first.state, after);
            for (Index step = at + 1; step <= 8; ++step)
                second.step(gradients(after, step), learning_rate);

            run_ranks(after, [&](Communicator& communicator) {
                const auto optimizer =
                    make_optimizer(model(), settings(partition), communicator, initial());
                restore_checkpoint(*optimizer, communicator, saved);
                take_steps(*optimizer, communicator.rank(), at + 1, 8);
                const auto rank = static_cast<std::size_t>(communicator.rank());
                for (Index i = 0; i < model().size(); ++i) {
                    const auto index = static_cast<std::size_t>(i);
                    ASSERT_EQ(optimizer->parameters()[index], second.state.w[i])
                        << before << " -> " << after;
                    ASSERT_EQ(optimizer->residual()[index], second.state.e[rank][i])
                        << before << " -> " << after;
                    ASSERT_EQ(optimizer->coming_mask().test(i),
                              std::find(second.state.S->begin(), second.state.S->end(), i) !=
                                  second.state.S->end());
                }
            });
        }
}

TEST_F(Checkpoint, LatestIsTheCompleteOneOfTheGreatestStep) {
    EXPECT_EQ(latest_checkpoint(folder_), std::nullopt);
    EXPECT_EQ(latest_checkpoint(folder_ / "absent"), std::nullopt);
    const fs::path second = save(2, 2);
    const fs::path tenth = save(2, 10);
    EXPECT_EQ(latest_checkpoint(folder_), tenth);
    fs::remove(tenth / "manifest.json");
    EXPECT_EQ(latest_checkpoint(folder_), second);
}

TEST_F(Checkpoint, SavingTheSameStepAgainReplacesIt) {
    static_cast<void>(save(2, 3));
    const fs::path again = save(3, 3);
    EXPECT_TRUE(fs::exists(again / "rank-0002.safetensors"));
    EXPECT_FALSE(fs::exists(fs::path(again.string() + ".partial")));
}

void flip_byte(const fs::path& path, std::uintmax_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
}

TEST_F(Checkpoint, DamageOfAnyKindIsRefusedAndChangesNothing) {
    const auto damaged = [&](const std::string& name, const std::function<void(const fs::path&)>& damage) {
        const fs::path saved = save(2, 3, settings(), name);
        damage(saved);
        return saved;
    };
    const std::string file = "rank-0001.safetensors";
    expect_refused(folder_ / "absent", "no manifest");
    expect_refused(
        damaged("truncated",
                [&](const fs::path& p) { fs::resize_file(p / file, fs::file_size(p / file) - 1); }),
        "the manifest says");
    expect_refused(
        damaged("longer",
                [&](const fs::path& p) { fs::resize_file(p / file, fs::file_size(p / file) + 1); }),
        "the manifest says");
    expect_refused(damaged("missing", [&](const fs::path& p) { fs::remove(p / file); }), "cannot be read");
    for (const double place : {0.0, 0.1, 0.5, 0.99})
        expect_refused(damaged("flipped",
                               [&](const fs::path& p) {
                                   flip_byte(p / file,
                                             static_cast<std::uintmax_t>(
                                                 place * static_cast<double>(fs::file_size(p / file))));
                               }),
                       "checksum");
    expect_refused(
        damaged("manifest", [&](const fs::path& p) { fs::resize_file(p / "manifest.json", 40); }),
        "damaged");
    expect_refused(damaged("no_manifest", [&](const fs::path& p) { fs::remove(p / "manifest.json"); }),
                   "no manifest");
    expect_refused(damaged("foreign",
                           [&](const fs::path& p) {
                               std::ofstream(p / "manifest.json") << "{\"format\": \"other\"}";
                           }),
                   "manifest");
    const fs::path other = save(2, 5, settings(), "other");
    expect_refused(damaged("mixed",
                           [&](const fs::path& p) {
                               fs::copy_file(other / file, p / file, fs::copy_options::overwrite_existing);
                           }),
                   "manifest");
    expect_refused(damaged("swapped",
                           [&](const fs::path& p) { // both files are complete, but in each other's place
                               fs::rename(p / "rank-0000.safetensors", p / "aside");
                               fs::rename(p / file, p / "rank-0000.safetensors");
                               fs::rename(p / "aside", p / file);
                           }),
                   "manifest");
}

const Manifest good_manifest{
    3, 0xfedc'ba98'7654'3210U, {{{0, 255}, {4000, 0xffff'ffff'ffff'ffffU}}, {{255, 510}, {4001, 2}}}};

Manifest parsed(const std::string& text) {
    return parse_manifest(text, "manifest.json", 510);
}

void expect_manifest_refused(const std::string& text) {
    try {
        static_cast<void>(parsed(text));
        ADD_FAILURE() << "not refused: " << text.substr(0, 1000);
    } catch (const Error& error) {
        EXPECT_EQ(std::string(error.what()),
                  "manifest.json: it is damaged; give the path of a complete checkpoint");
    }
}

TEST(Manifest, WhatIsWrittenIsReadBackTheSame) {
    EXPECT_EQ(parsed(manifest_text(good_manifest, "a model")), good_manifest);
}

TEST(Manifest, OnlyWholeNumbersAreReadAsNumbers) {
    // Someone who forges the number may forge the checksum too.
    const auto forged = [](const std::string& pointer, const nlohmann::ordered_json& value) {
        auto json = nlohmann::ordered_json::parse(manifest_text(good_manifest, "a model"));
        json.erase("checksum");
        json[nlohmann::ordered_json::json_pointer(pointer)] = value;
        json["checksum"] = checksum(json.dump());
        return json.dump(1) + "\n";
    };
    EXPECT_EQ(parsed(forged("/description", "any")), good_manifest);
    for (const std::string place :
         {"/step", "/model", "/ranks/0/begin", "/ranks/0/end", "/ranks/1/bytes", "/ranks/1/checksum"})
        for (const nlohmann::ordered_json& value :
             {nlohmann::ordered_json(0.5), nlohmann::ordered_json(1e300), nlohmann::ordered_json(-1),
              nlohmann::ordered_json(true), nlohmann::ordered_json("3")}) {
            SCOPED_TRACE(place + " " + value.dump());
            expect_manifest_refused(forged(place, value));
        }
    expect_manifest_refused(R"({"format": "scape-checkpoint", "version": 1, "checksum": 1e30})");
}

TEST(Manifest, DeepNestingDoesNotReachTheStack) {
    const std::string begin = R"({"format": "scape-checkpoint", "version": 1, "checksum": 0, "deep": )";
    for (const auto& [opening, closing] :
         {std::pair<std::string, std::string>{"[", "]"}, {R"({"a":)", "}"}}) {
        constexpr int depth = 1'000'000; // the stack has a few million bytes
        std::string text = begin;
        for (int i = 0; i < depth; ++i)
            text += opening;
        text += "0";
        for (int i = 0; i < depth; ++i)
            text += closing;
        expect_manifest_refused(text + "}");
    }
}

TEST_F(Checkpoint, OfOtherSettingsIsRefused) {
    const fs::path saved = save(2, 3);
    auto other = settings();
    other.hyper.beta1 = 0.8;
    expect_refused(saved, "other settings", other);
    other = settings();
    other.density = DensitySchedule::constant(0.05);
    expect_refused(saved, "schedule", other);
}

TEST_F(Checkpoint, AFolderThatCannotBeWrittenIsToldOnAllRanks) {
    std::ofstream(folder_ / "file") << "in the way";
    run_ranks(2, [&](Communicator& communicator) {
        const auto optimizer = make_optimizer(model(), settings(), communicator, initial());
        take_steps(*optimizer, communicator.rank(), 1, 1);
        EXPECT_THROW(save_checkpoint(*optimizer, communicator, folder_ / "file"), Error);
        EXPECT_NO_THROW(take_steps(*optimizer, communicator.rank(), 2, 2)) << "the run goes on";
        static_cast<void>(optimizer->coming_mask());
    });
}

TEST_F(Checkpoint, WhatOneRankCannotSaveIsToldOnAllRanks) {
    run_ranks(2, [&](Communicator& communicator) {
        const auto optimizer = make_optimizer(model(), settings(), communicator, initial());
        take_steps(*optimizer, communicator.rank(), 1, 1);
        const bool odd = communicator.rank() == 1;
        if (odd)
            optimizer->accumulate(gradient(1, 2));
        try {
            save_checkpoint(*optimizer, communicator, folder_);
            ADD_FAILURE() << "rank " << communicator.rank() << " has saved";
        } catch (const Error& error) {
            EXPECT_TRUE(
                std::string(error.what())
                    .starts_with(odd ? "cannot save within a step" : "rank 1: cannot save within a step"))
                << error.what();
        }
        optimizer->forget_parts();
        EXPECT_NO_THROW(save_checkpoint(*optimizer, communicator, folder_));
        EXPECT_THROW(optimizer->step(gradient(communicator.rank(), 2), 1e39), Halted);
        EXPECT_THROW(save_checkpoint(*optimizer, communicator, folder_), Halted);
    });
}

} // namespace
} // namespace truestep::distributed::scape
