// Tests MAPL's checkpoints: both sides, damage, crashes at any operation, and the same bits after.
#include <truestep/distributed/mapl/checkpoint.hpp>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process_peers.hpp>
#include <truestep/problem/error.hpp>

#include "memory_files.hpp"

namespace truestep::distributed::mapl {
namespace {

namespace fs = std::filesystem;
namespace memory = storage::memory;

const Settings with_codewords{.width = 4,
                              .rank = 2,
                              .vocabulary = 3,
                              .anchors = Anchors::two,
                              .quantization = {.codewords = 4, .groups = 2, .subsets = 2}};

EndState some_state(Side side, int boundary, Index steps) {
    const auto value = static_cast<float>(100 * boundary + steps + (side == Side::sender ? 0 : 50));
    EndState state{steps, 3 * steps, {value, 1.0F}, {}, {-0.0F, value}, {0.5F, value}, {0.0F, value}, {}};
    if (side == Side::sender) {
        state.m = {value, 2.0F};
        state.learned = {0.0F, -value};
    }
    return state;
}

bool alike(const EndState& one, const EndState& other) {
    const auto bits = [](const Floats& a, const Floats& b) {
        return a.size() == b.size() &&
               (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
    };
    return one.steps == other.steps && one.micro_batches == other.micro_batches && bits(one.a, other.a) &&
           bits(one.m, other.m) && bits(one.anchor, other.anchor) && bits(one.rows, other.rows) &&
           bits(one.codebooks, other.codebooks) && bits(one.learned, other.learned);
}

fs::path save_all(const fs::path& folder, int boundaries, Index steps, storage::FileSystem& files) {
    fs::path checkpoint;
    for (int boundary = 0; boundary < boundaries; ++boundary)
        for (const Side side : {Side::sender, Side::receiver})
            checkpoint =
                save(folder, with_codewords, some_state(side, boundary, steps), side, boundary, files);
    return checkpoint;
}

class MaplCheckpoint : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string path = (fs::temp_directory_path() / "mapl-XXXXXX").string();
        ASSERT_NE(mkdtemp(path.data()), nullptr);
        folder_ = path;
    }
    void TearDown() override { fs::remove_all(folder_); }

    static std::string refused(const std::function<void()>& act) {
        try {
            act();
        } catch (const Error& error) {
            const std::string line = error.what();
            return line.substr(line.find(".safetensors: ") + 14);
        }
        return "";
    }

    fs::path folder_;
};

TEST_F(MaplCheckpoint, EachSideGetsWhatItHad) {
    EXPECT_EQ(latest(folder_, 2), std::nullopt);
    EXPECT_EQ(latest(folder_ / "none", 2), std::nullopt);
    const fs::path first = save_all(folder_, 2, 7, storage::disk());
    const fs::path second = save_all(folder_, 2, 11, storage::disk());
    EXPECT_EQ(latest(folder_, 2), second);
    for (int boundary = 0; boundary < 2; ++boundary)
        for (const Side side : {Side::sender, Side::receiver})
            EXPECT_TRUE(
                alike(load(second, with_codewords, side, boundary), some_state(side, boundary, 11)));
    fs::remove(second / "boundary-1-receiver.safetensors");
    EXPECT_EQ(latest(folder_, 2), first); // skips an incomplete one
    EXPECT_EQ(latest(folder_, 1), second);
}

TEST_F(MaplCheckpoint, OfAnotherSideOrOtherSettingsIsRefused) {
    const fs::path checkpoint = save_all(folder_, 1, 7, storage::disk());
    Settings other = with_codewords;
    other.quantization.subsets = 4;
    EXPECT_NE(
        refused([&] { static_cast<void>(load(checkpoint, other, Side::sender, 0)); }).find("subsets 4"),
        std::string::npos);
    fs::rename(checkpoint / "boundary-0-sender.safetensors",
               checkpoint / "boundary-0-receiver.safetensors");
    EXPECT_EQ(refused([&] { static_cast<void>(load(checkpoint, with_codewords, Side::receiver, 0)); }),
              "it was boundary-0-sender.safetensors; use another checkpoint");
}

TEST_F(MaplCheckpoint, AnyDamagedByteIsNoticed) {
    const fs::path file = save_all(folder_, 1, 7, storage::disk()) / "boundary-0-sender.safetensors";
    std::ifstream in(file, std::ios::binary);
    const std::string good{std::istreambuf_iterator<char>(in), {}};
    const auto read = [&] { return load(file.parent_path(), with_codewords, Side::sender, 0); };
    for (std::size_t at = 0; at < good.size(); ++at) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1);
        std::ofstream(file, std::ios::binary) << bad;
        // A space of the header may become another character that JSON treats as one; then nothing
        // is lost.
        bool same = false;
        const bool told = !refused([&] { same = alike(read(), some_state(Side::sender, 0, 7)); }).empty();
        EXPECT_TRUE(told || same) << "byte " << at;
    }
    for (const std::size_t size : {std::size_t{0}, std::size_t{8}, good.size() / 2, good.size() - 1}) {
        std::ofstream(file, std::ios::binary | std::ios::trunc) << good.substr(0, size);
        EXPECT_THROW(static_cast<void>(read()), Error);
    }
}

// A power failure at any operation: the latest complete checkpoint can be read, and is no older than the
// last one whose saving had returned.
TEST(MaplCheckpoints, OutlastACrashAtAnyOperation) {
    memory::Files files(memory::State{}, 64);
    const auto view = files.rank(0);
    std::vector<std::size_t> done; // operations until all sides had saved
    for (const Index steps : {1, 2}) {
        save_all("/run", 1, steps, *view);
        done.push_back(files.operations().size());
    }
    memory::State state = files.begin();
    std::size_t outcomes = 0;
    for (std::size_t count = 0; count <= files.operations().size(); ++count) {
        for (const memory::Tree& tree : state.outcomes(7)) {
            ++outcomes;
            memory::Files left{memory::State(tree)};
            const auto after = left.rank(0);
            const auto found = latest("/run", 1, *after);
            const Index least = count >= done[1] ? 2 : count >= done[0] ? 1 : 0;
            if (!found) {
                EXPECT_EQ(least, 0) << "after operation " << count;
                continue;
            }
            const EndState sender = load(*found, with_codewords, Side::sender, 0, *after);
            EXPECT_GE(sender.steps, least) << "after operation " << count;
            EXPECT_TRUE(alike(sender, some_state(Side::sender, 0, sender.steps)));
            EXPECT_TRUE(alike(load(*found, with_codewords, Side::receiver, 0, *after),
                              some_state(Side::receiver, 0, sender.steps)));
        }
        if (count < files.operations().size()) {
            ASSERT_FALSE(state.apply(files.operations()[count]));
        }
    }
    EXPECT_GT(outcomes, 100U);
}

// Through files, in the middle of a codebook's turn: the same bits as without a break.
TEST_F(MaplCheckpoint, ARunGoesOnToTheSameBits) {
    const Settings settings{.width = 4,
                            .rank = 2,
                            .vocabulary = 3,
                            .quantization = {.codewords = 6, .subsets = 3, .decay = 0.5}};
    const auto run = [&](bool breaks) {
        std::vector<Floats> seen;
        distributed::run_peers(2, [&](distributed::Peers& peers) {
            const bool sends = peers.rank() == 0;
            const Side side = sends ? Side::sender : Side::receiver;
            EndState state = first_state(settings, side, first_subspace(4, 2, 1), {});
            Floats x(5 * 4);
            const std::vector<Id> ids(5, 1);
            for (Index step = 0; step < 4; ++step) {
                if (breaks && step > 0)
                    state = load(*latest(folder_, 0), settings, side, 0);
                for (std::size_t i = 0; i < x.size(); ++i)
                    x[i] = static_cast<float>(
                               static_cast<int>((i * 7 + static_cast<std::size_t>(step)) % 9) - 4) *
                           0.5F;
                if (sends) {
                    Sender sender(settings, state, peers, 1);
                    sender.forward(0, x, ids);
                    static_cast<void>(sender.backward(0));
                    sender.end_step(0.1);
                    state = sender.state();
                } else {
                    Receiver receiver(settings, state, peers, 0);
                    receiver.backward(0, receiver.forward(0, 5).activations);
                    receiver.end_step();
                    state = receiver.state();
                    seen.push_back(state.codebooks);
                    seen.push_back(state.a);
                }
                if (breaks)
                    save(folder_, settings, state, side, 0);
            }
        });
        return seen;
    };
    EXPECT_EQ(run(true), run(false));
}

} // namespace
} // namespace truestep::distributed::mapl
