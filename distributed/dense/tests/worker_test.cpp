// Tests that dense training has the same bits on any number of ranks, and what it refuses.
#include <truestep/distributed/dense/worker.hpp>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/distributed/dense/checkpoint.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::distributed::dense {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

std::string error_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.what();
    }
    return "no error";
}

/// Tensors of several blocks of the norm, whose borders lie within and between ranks.
Problem large(int ranks, Order order) {
    Problem problem;
    problem.ranks = ranks;
    problem.micro_batches.assign(static_cast<std::size_t>(ranks), 8 / ranks);
    problem.order = order;
    problem.clip_norm = 0.5;
    problem.tensors = {{"embedding", {5000}, "other"},
                       {"a", {70, 90}, "matrix"},
                       {"head", {9001}, "other"},
                       {"b", {90, 20}, "matrix"}};
    problem.groups = {group_of(Rule::muon, {"matrix"}), group_of(Rule::adamw, {"other"})};
    return problem;
}

Floats trained(const Problem& problem, const Options& options) {
    const Index size = layout_of(problem).size();
    Floats result;
    std::mutex mutex;
    run_ranks(problem.ranks, [&](Communicator& ranks) {
        const Floats parameters = problem::initial_parameters(problem::DataClass::normal, 3, size);
        Worker worker(problem, parameters, ranks, options);
        Floats gradient(parameters.size());
        const int own = problem.micro_batches.front();
        for (Index step = 1; step <= 3; ++step) {
            for (int i = 0; i < own; ++i) {
                problem::fill_gradient(gradient, problem::DataClass::normal, 3, ranks.rank() * own + i,
                                       step);
                worker.add(gradient);
            }
            EXPECT_TRUE(worker.step({0.02, 0.001}));
        }
        const std::scoped_lock lock(mutex);
        if (ranks.rank() == ranks.size() - 1)
            result.assign(worker.parameters().begin(), worker.parameters().end());
    });
    return result;
}

TEST(Worker, NeitherRanksNorThreadsNorShardsChangeABitOfALargeModel) {
    const Floats alone = trained(large(1, Order::tree), {});
    EXPECT_EQ(trained(large(2, Order::tree), {}), alone);
    EXPECT_EQ(trained(large(4, Order::tree), {.threads = 3}), alone);
    EXPECT_EQ(trained(large(8, Order::tree), {.threads = 1, .sharded = false}), alone);
    EXPECT_EQ(trained(large(4, Order::rank), {}),
              trained(large(4, Order::rank), {.threads = 2, .sharded = false}));
}

TEST(Worker, OwnersAreOfWholeMatricesAndSharesOfTheRest) {
    for (const auto& [ranks, last] : {std::pair{3, 14001 / 3}, {4, 14001 - 3 * 3501}}) {
        const Ownership ownership(large(ranks, Order::rank));
        Index least = 1 << 30;
        for (int rank = 0; rank < ranks; ++rank) {
            Index elementwise = 0;
            for (const Piece& piece : ownership.pieces(rank)) {
                if (piece.tensor % 2 == 1)
                    EXPECT_EQ(piece.size(), piece.tensor == 1 ? 6300 : 1800);
                else
                    elementwise += piece.size();
            }
            least = std::min(least, elementwise);
        }
        EXPECT_EQ(least, last);
        EXPECT_FALSE(ownership.in_order());
    }
}

TEST(Worker, RefusesRanksThatBeginWithOtherParametersOnAllOfThem) {
    const Problem problem = large(2, Order::rank);
    run_ranks(2, [&](Communicator& ranks) {
        Floats parameters(static_cast<std::size_t>(layout_of(problem).size()), 1.0F);
        if (ranks.rank() == 1)
            parameters.back() = std::nextafter(1.0F, 2.0F);
        EXPECT_THAT(error_of([&] { Worker(problem, parameters, ranks); }),
                    HasSubstr("rank 1 has parameters with digest "));
    });
}

TEST(Worker, RefusesARankThatBeginsFromAStateWhereAnotherHasParameters) {
    const Problem problem = large(2, Order::rank);
    run_ranks(2, [&](Communicator& ranks) {
        const Floats parameters(static_cast<std::size_t>(layout_of(problem).size()), 1.0F);
        const State state = first_state(problem, Ownership(problem), ranks.rank(), parameters);
        const auto begin = [&] {
            return ranks.rank() == 1 ? Worker(problem, state, ranks) : Worker(problem, parameters, ranks);
        };
        EXPECT_THAT(error_of([&] { begin(); }),
                    HasSubstr("rank 1 has the beginning a state where rank 0 has parameters"));
    });
}

TEST(Worker, ARankThatCannotBeginIsNamedOnAllOfThem) {
    const Problem problem = large(3, Order::rank);
    run_ranks(3, [&](Communicator& ranks) {
        const Floats parameters(ranks.rank() == 1 ? 3
                                                  : static_cast<std::size_t>(layout_of(problem).size()));
        EXPECT_EQ(error_of([&] { Worker(problem, parameters, ranks); }),
                  std::string(ranks.rank() == 1 ? "" : "rank 1 cannot begin: ") +
                      "there are 3 parameters, and the model has 22101; give all of them");
    });
}

TEST(Worker, RoundsMuonsScaleToBf16Once) {
    Problem problem;
    problem.tensors = {{"a", {1, 1}, "matrix"}};
    Group muon = group_of(Rule::muon, {"matrix"});
    muon.iteration = Iteration::bf16;
    muon.iterations = 1;
    muon.coefficients = {1.0, 0.0, 0.0};
    muon.weight_decay = muon.momentum = 0.0;
    muon.epsilon = 1.0 + 0x1p-8 + 0x1p-40; // as fp32 it is halfway between two of bf16
    problem.groups = {muon};
    run_ranks(1, [&](Communicator& ranks) {
        Worker worker(problem, Floats{0.0F}, ranks);
        worker.add(Floats{0.75F});
        EXPECT_TRUE(worker.step({1.0}));
        EXPECT_EQ(worker.parameters()[0], -0.74609375F); // 0.75 / 1.0078125 in bf16
    });
}

TEST(Worker, RefusesAStateOfAnotherOwnership) {
    const Problem problem = large(1, Order::rank);
    run_ranks(1, [&](Communicator& ranks) {
        const Floats parameters(static_cast<std::size_t>(layout_of(problem).size()), 1.0F);
        State state = first_state(problem, Ownership(problem), 0, parameters);
        state.v.pop_back();
        EXPECT_THAT(error_of([&] { Worker(problem, state, ranks); }), HasSubstr("is not that of rank 0"));
    });
}

TEST(Worker, EachBeginningIsARunOfItsOwn) {
    const Problem problem = large(1, Order::rank);
    run_ranks(1, [&](Communicator& ranks) {
        const Worker first(problem, Floats(static_cast<std::size_t>(layout_of(problem).size())), ranks);
        EXPECT_NE(Worker(problem, first.state(), ranks).state().run, first.state().run);
    });
}

TEST(Worker, RefusesWhatDoesNotFit) {
    const Problem problem = large(1, Order::rank);
    run_ranks(1, [&](Communicator& ranks) {
        const Floats parameters(static_cast<std::size_t>(layout_of(problem).size()));
        EXPECT_THAT(error_of([&] { Worker(large(2, Order::rank), parameters, ranks); }),
                    HasSubstr("the problem has 2 ranks, and 1 were started"));
        EXPECT_THAT(error_of([&] { Worker(problem, Floats(3), ranks); }),
                    HasSubstr("there are 3 parameters"));
        Worker worker(problem, parameters, ranks);
        EXPECT_THAT(error_of([&] { worker.add(Floats(3)); }), HasSubstr("the gradient has 3 values"));
        EXPECT_THAT(error_of([&] { worker.step({0.1, 0.1}); }), HasSubstr("0 of its 8 micro-batches"));
        for (int i = 0; i < 8; ++i)
            worker.add(parameters);
        EXPECT_THAT(error_of([&] { worker.add(parameters); }), HasSubstr("has its 8 micro-batches"));
        EXPECT_THAT(error_of([&] { worker.step({0.1}); }), HasSubstr("learning_rate"));
        EXPECT_TRUE(worker.step({0.1, 0.1}));
    });
}

class Checkpoint : public testing::Test {
  protected:
    void SetUp() override {
        std::string path = (std::filesystem::temp_directory_path() / "dense-XXXXXX").string();
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        folder = path;
    }
    void TearDown() override { std::filesystem::remove_all(folder); }

    std::filesystem::path folder;
};

TEST_F(Checkpoint, OtherRanksGetTheSameBitsAndWhatIsMissingIsRefused) {
    const Problem two = large(2, Order::rank);
    const auto size = static_cast<std::size_t>(layout_of(two).size());
    Floats all(size);
    problem::fill_gradient(all, problem::DataClass::normal, 1, 0, 1);
    std::filesystem::path checkpoint;
    for (int rank = 0; rank < 2; ++rank) {
        EXPECT_FALSE(latest(folder));
        State state = first_state(two, Ownership(two), rank, all);
        state.steps = 7;
        checkpoint = save(folder, two, {}, state, rank);
    }
    EXPECT_EQ(latest(folder), checkpoint);
    const Problem four = large(4, Order::rank);
    for (int rank = 0; rank < 4; ++rank) {
        State expected = first_state(four, Ownership(four), rank, all);
        expected.steps = 7;
        EXPECT_EQ(load(checkpoint, four, {}, rank), expected);
    }
    EXPECT_EQ(load(checkpoint, four, {.threads = 1, .sharded = false}, 3).w, all);
    // A rank has died while it saved the step again.
    std::ofstream(checkpoint / "rank-0-of-2.safetensors.partial") << "half";
    EXPECT_EQ(load(checkpoint, four, {.threads = 1, .sharded = false}, 3).w, all);
    Problem other = four;
    other.groups[0].momentum = 0.5;
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, other, {}, 0)); }),
                HasSubstr("momentum 0.5"));
    // Others have saved to the same folder.
    State stranger = first_state(two, Ownership(two), 1, all);
    stranger.steps = 7;
    stranger.run = 1;
    save(folder, two, {}, stranger, 1);
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, four, {}, 0)); }),
                HasSubstr("rank-1-of-2.safetensors: it is of another run or step than rank 0's"));
    const Problem alone = large(1, Order::rank);
    stranger = first_state(alone, Ownership(alone), 0, all);
    stranger.steps = 7;
    save(folder, alone, {}, stranger, 0);
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, four, {}, 0)); }),
                HasSubstr("runs of 1 and of 2 ranks have saved to it"));
    std::filesystem::remove(checkpoint / "rank-0-of-1.safetensors");
    std::filesystem::remove(checkpoint / "rank-1-of-2.safetensors");
    EXPECT_FALSE(latest(folder));
    EXPECT_THAT(error_of([&] { static_cast<void>(load(checkpoint, four, {}, 0)); }),
                HasSubstr("not all ranks' files are there"));
}

} // namespace
} // namespace truestep::distributed::dense
