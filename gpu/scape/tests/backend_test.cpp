// Compares the backend over blocks in the host's form with the host's own, in every bit.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/gpu/scape/block_backend.hpp>
#include <truestep/problem/error.hpp>

#include "machine.hpp"
#include "segments.hpp"
#include "support.hpp"

namespace truestep::gpu::scape {
namespace {

using distributed::scape::Backend;
using distributed::scape::MaskCode;
using problem::BiasCorrection;
using Parts = std::vector<MaskCode::Part>;

/// Two backends, driven through the same steps as one rank of several; other ranks' data is drawn.
class Pair {
  public:
    Pair(const Parts& all, std::size_t first_own, std::size_t last_own, const Way& way)
        : all_(all), own_(all.begin() + static_cast<std::ptrdiff_t>(first_own),
                          all.begin() + static_cast<std::ptrdiff_t>(last_own)),
          first_own_(first_own), size_(all.back().end), problem_(problem_of(size_)) {
        const auto w = draw(all_data()[0], random_, size_);
        host_ = distributed::scape::make_host_backend(problem_, w);
        blocks_ = make_block_backend(problem_, w, {way.threads, way.seed, way.group_tiles});
    }

    void step(Index number, const Data& data, float scale, double density, double clip_norm) {
        for (MaskCode::Part& part : all_)
            part.k = std::min(part.end - part.begin,
                              std::max(Index{1}, static_cast<Index>(density * static_cast<double>(
                                                                                  part.end - part.begin))));
        for (std::size_t i = 0; i < own_.size(); ++i)
            own_[i] = all_[first_own_ + i];
        const auto g = draw(data, random_, size_, scale);
        const auto seed = random_();
        distributed::Scalars s = scalars();
        s.b1 = number % 3 == 2 ? 0.0F : s.b1;
        const std::string name = data.name + ", step " + std::to_string(number);
        if (number == 1) {
            each([&](Backend& backend) { backend.local_pass(s, g.data()); });
            make_mask(seed, name);
            each([](Backend& backend) {
                backend.advance_mask();
                backend.extract_payload();
            });
        } else {
            each([&](Backend& backend) {
                ASSERT_EQ(backend.first_refused(g.data()).index, size_);
                backend.advance_mask();
                if (number % 4 != 0) // sometimes no hint, or a wrong one
                    backend.hint_next_selection(number == 5 ? std::span(own_).first(own_.size() / 2)
                                                            : std::span(own_));
                backend.local_pass(s, g.data());
            });
        }
        const Index selected = host_->current_mask().selected();
        ASSERT_EQ(bits(host_->payload(), selected), bits(blocks_->payload(), selected)) << name;
        ASSERT_EQ(bits(host_->residual()), bits(blocks_->residual())) << name;
        select_mask(seed + 1, name); // read after the update, which still looks at the mask before
        const Index at = selected / 3;
        const Index count = selected / 2;
        each([&](Backend& backend) {
            std::mt19937_64 random(seed + 2);
            constexpr int ranks = 3;
            auto* const received = static_cast<float*>(backend.received(count * ranks));
            for (Index i = 0; i < count * ranks; ++i)
                received[i] = scale * normal(random);
            if (number % 2 == 0)
                backend.fold(s, ranks, at, count);
            else
                backend.divide(s, at, count);
            backend.reconstruct(s, clip_norm);
        });
        const auto expected = host_->update(BiasCorrection::adam, s);
        const auto verdict = blocks_->update(BiasCorrection::adam, s);
        EXPECT_EQ(verdict.finite, expected.finite) << name;
        EXPECT_EQ(verdict.kept, expected.kept) << name;
        EXPECT_EQ(verdict.norm, expected.norm) << name;
        EXPECT_EQ(verdict.clip_factor, expected.clip_factor) << name;
        decode_mask(name);
        ASSERT_EQ(bits(host_->parameters()), bits(blocks_->parameters())) << name;
        ASSERT_EQ(bits(host_->packed_moment()), bits(blocks_->packed_moment())) << name;
        ASSERT_EQ(bits(host_->current_mask()), bits(blocks_->current_mask())) << name;
        ASSERT_EQ(bits(host_->coming_mask()), bits(blocks_->coming_mask())) << name;
    }

    void restore_into_blocks() {
        const auto copy = [](std::span<const float> values) {
            return std::vector<float>(values.begin(), values.end());
        };
        blocks_->restore(copy(host_->parameters()), copy(host_->residual()), copy(host_->packed_moment()),
                         host_->current_mask(), host_->coming_mask());
    }

  private:
    static problem::Problem problem_of(Index size) {
        return problem::make_problem(problem::Algorithm::scape, 3, // a rank that is alone codes no mask
                                     problem::Layout({{"all", size, false}}),
                                     problem::PartitionRule::by_shard, {});
    }
    void each(const std::function<void(Backend&)>& act) {
        act(*host_);
        act(*blocks_);
    }
    void make_mask(std::uint64_t seed, const std::string& name) {
        select_mask(seed, name);
        decode_mask(name);
    }
    void select_mask(std::uint64_t seed, const std::string& name) {
        // Other ranks select k coordinates of each segment, at drawn places.
        std::mt19937_64 random(seed);
        Mask theirs(size_);
        for (const MaskCode::Part& part : all_)
            theirs.set_range(part.begin, part.begin + part.k);
        std::vector<std::uint8_t> code(MaskCode::bytes(all_) + 1, 0xee);
        MaskCode::encode(all_, theirs, code.data());
        const std::size_t own_at = MaskCode::bytes(std::span(all_).first(first_own_));
        const std::size_t own_bytes = MaskCode::bytes(own_);
        std::vector<std::uint8_t> own_code;
        each([&](Backend& backend) {
            std::uint8_t* const place = backend.mask_code(code.size());
            std::copy(code.begin(), code.end(), place);
            backend.select(own_, own_at);
            ASSERT_EQ(place[code.size() - 1], 0xee);
            const std::vector<std::uint8_t> mine(place + own_at, place + own_at + own_bytes);
            if (&backend == host_.get())
                own_code = mine;
            ASSERT_EQ(mine, own_code) << name;
        });
    }
    void decode_mask(const std::string& name) {
        each([&](Backend& backend) { backend.decode_mask(all_); });
        ASSERT_EQ(bits(host_->coming_mask()), bits(blocks_->coming_mask())) << name;
    }

    Parts all_;
    Parts own_;
    std::size_t first_own_;
    Index size_;
    problem::Problem problem_;
    std::mt19937_64 random_{11};
    std::unique_ptr<Backend> host_;
    std::unique_ptr<Backend> blocks_;
};

Parts cut(std::initializer_list<Index> sizes_of_parts) {
    Parts parts;
    Index at = 0;
    for (const Index size : sizes_of_parts) {
        parts.push_back({at, at + size, 0});
        at += size;
    }
    return parts;
}

constexpr float scales[] = {1.0F, 1.0F, 1.01F, 1000.0F, 1e-3F, 1.0F, 1.0F};

class Backends : public testing::TestWithParam<Way> {};
INSTANTIATE_TEST_SUITE_P(Ways, Backends, testing::ValuesIn(ways), way_name);

TEST_P(Backends, AreTheSameOnEveryClassOfData) {
    const Parts all = cut({900, 33, 1, 30'000, 7, 63, 64, 65, 4097, 255, 256});
    for (const Data& data : all_data())
        for (const double density : {0.001, 0.1, 0.5}) {
            Pair pair(all, 2, 9, GetParam());
            for (Index number = 1; number <= 6; ++number) {
                pair.step(number, data, data.name == "wide" ? 1.0F : scales[number], density, 0.5);
                if (HasFatalFailure())
                    return;
            }
        }
}

TEST_P(Backends, AreTheSameAroundWordsAndTiles) {
    for (const Index size : sizes)
        for (const double density : {0.01, 0.2, 1.0}) {
            if (size == 0)
                continue;
            Pair pair(cut({size}), 0, 1, GetParam());
            for (Index number = 1; number <= 4; ++number) {
                pair.step(number, all_data()[0], 1.0F, density, 0.0);
                if (HasFatalFailure())
                    return;
            }
        }
}

TEST_P(Backends, AreTheSameWhereDataAndDensityChange) {
    for (const Index own : {0, 1, 3}) {
        Pair pair(cut({50'001, 3, 70'000, 12'345}), 0, static_cast<std::size_t>(own), GetParam());
        std::mt19937_64 random(3);
        for (Index number = 1; number <= 14; ++number) {
            const double density[] = {1.0, 0.3, 0.05, 0.05, 0.01};
            pair.step(number, all_data()[random() % all_data().size()], 1.0F, density[random() % 5], 2.0);
            if (HasFatalFailure())
                return;
            if (number % 5 == 0)
                pair.restore_into_blocks();
        }
    }
}

TEST(BlockBackend, RefuseTheFirstBadGradient) {
    const problem::Problem problem =
        problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", 9000, false}}),
                              problem::PartitionRule::by_shard, {});
    std::vector<float> g(9000, 1.0F);
    const auto blocks = make_block_backend(problem, g);
    EXPECT_EQ(blocks->first_refused(g.data()).index, 9000);
    g[8000] = 1e30F;
    g[8999] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(blocks->first_refused(g.data()).index, 8000);
    EXPECT_EQ(blocks->first_refused(g.data()).value, 1e30F);
}

TEST(BlockBackend, ACorruptCodeIsToldAndNothingIsReadBeyondItsBytes) {
    std::mt19937 random(9);
    for (const auto& [n, k] : {std::pair<Index, Index>{1003, 10}, {1003, 500}}) {
        const problem::Problem problem =
            problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", n, false}}),
                                  problem::PartitionRule::by_shard, {});
        const Parts parts{{0, n, k}};
        Mask mask(n);
        for (Index i = 0; i < k; ++i)
            mask.set(i * (n / k));
        std::vector<std::uint8_t> good(MaskCode::bytes(parts));
        MaskCode::encode(parts, mask, good.data());
        const std::vector<float> w(static_cast<std::size_t>(n), 0.0F);
        int refused = 0;
        for (std::size_t byte = 0; byte < good.size(); ++byte)
            for (unsigned bit = 0; bit < 8; ++bit) {
                auto bad = good;
                bad[byte] = static_cast<std::uint8_t>(bad[byte] ^ (1U << bit));
                Mask decoded(n);
                bool expected = false;
                try {
                    MaskCode::decode(parts, bad.data(), decoded);
                } catch (const distributed::scape::CorruptMask&) {
                    expected = true;
                }
                const auto blocks = make_block_backend(problem, w, {64, 3, 0});
                std::copy(bad.begin(), bad.end(), blocks->mask_code(bad.size()));
                blocks->decode_mask(parts);
                if (expected) {
                    EXPECT_THROW(static_cast<void>(blocks->coming_mask()), distributed::scape::CorruptMask);
                    blocks->restore(w, w, {}, Mask(n), mask);
                    EXPECT_EQ(bits(blocks->coming_mask()), bits(mask));
                    ++refused;
                } else {
                    EXPECT_EQ(bits(blocks->coming_mask()), bits(decoded));
                }
            }
        EXPECT_GT(refused, 0);
    }
}

TEST(BlockBackend, RefuseImpossibleOptions) {
    const problem::Problem problem =
        problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", 5, false}}),
                              problem::PartitionRule::by_shard, {});
    const std::vector<float> w(5, 0.0F);
    for (const int threads : {0, 16, 96, 2048})
        EXPECT_THROW(make_block_backend(problem, w, {threads, 1, 0}), Error);
    EXPECT_THROW(make_block_backend(problem, w, {256, 1, 17}), Error);
}

/// Whole runs of several ranks, through the step.
TEST(BlockBackend, BlocksEqualTheHost) {
    for (const int workers : {1, 2, 3, 5})
        for (const double density : {0.3, 0.02})
            for (const double clip_norm : {0.0, 0.7}) {
                problem::HyperParameters hyper;
                hyper.clip_norm = clip_norm;
                const problem::Layout layout({{"embed", 4500, false},
                                              {"norm", 33, true},
                                              {"gate", 1, false},
                                              {"mlp", 901, false},
                                              {"tiny", 7, false}});
                const auto problem = problem::make_problem(problem::Algorithm::scape, workers, layout,
                                                           problem::PartitionRule::by_shard, hyper);
                const auto ranges = problem::ranges(layout, workers, problem::PartitionRule::by_shard);
                distributed::run_ranks(workers, [&](distributed::Communicator& communicator) {
                    std::mt19937_64 same(1);
                    const auto w = draw(all_data()[0], same, layout.size());
                    distributed::scape::Scape host(
                        problem, ranges, problem::DensitySchedule::constant(density),
                        distributed::scape::make_host_backend(problem, w), communicator, {});
                    distributed::scape::Scape blocks(
                        problem, ranges, problem::DensitySchedule::constant(density),
                        make_block_backend(problem, w, {128, 9, 2}), communicator, {});
                    std::mt19937_64 random(static_cast<std::uint64_t>(communicator.rank()) + 2);
                    for (int step = 0; step < 6; ++step) {
                        const auto g = draw(all_data()[0], random, layout.size());
                        host.step(g, 1e-3);
                        blocks.step(g, 1e-3);
                        EXPECT_EQ(bits(host.parameters()), bits(blocks.parameters()));
                        EXPECT_EQ(bits(host.residual()), bits(blocks.residual()));
                        EXPECT_EQ(bits(host.moment()), bits(blocks.moment()));
                        EXPECT_EQ(bits(host.mask()), bits(blocks.mask()));
                        EXPECT_EQ(host.statistics().kept, blocks.statistics().kept);
                        EXPECT_EQ(host.statistics().selected, blocks.statistics().selected);
                        EXPECT_EQ(host.statistics().gradient_norm, blocks.statistics().gradient_norm);
                    }
                    EXPECT_EQ(bits(host.coming_mask()), bits(blocks.coming_mask()));
                });
            }
}

TEST(Segments, PiecesOfAMaskAreInOrderAndWithinTheirChunk) {
    const Parts all{
        {2 * decode_chunk + 5, 3 * decode_chunk + 1, 0}, {0, 7, 0}, {7, 2 * decode_chunk + 5, 0}};
    const Pieces found = pieces_of(all, 3 * decode_chunk + 9);
    std::vector<std::vector<Index>> pieces;
    for (const Group& piece : found.pieces)
        pieces.push_back({piece.begin, piece.end, piece.segment});
    const std::vector<std::vector<Index>> expected{{0, 7, 1},
                                                   {7, decode_chunk, 2},
                                                   {decode_chunk, 2 * decode_chunk, 2},
                                                   {2 * decode_chunk, 2 * decode_chunk + 5, 2},
                                                   {2 * decode_chunk + 5, 3 * decode_chunk, 0},
                                                   {3 * decode_chunk, 3 * decode_chunk + 1, 0}};
    EXPECT_EQ(pieces, expected);
    EXPECT_EQ(found.first, (std::vector<Index>{0, 2, 3, 5, 6}));
}

TEST(Segments, TilesOfOneSegmentAreWatchedInTheirCells) {
    const Parts own{{5 * tile + 9, 8 * tile, 1}, {8 * tile, 9 * tile, 1}, {9 * tile, 9 * tile + 3, 1}};
    for (const Index group_tiles : {1, 2, 16}) {
        const std::vector<Group> groups = groups_of(own, group_tiles);
        const WatchedTiles found = watched_tiles_of(groups);
        EXPECT_EQ(cell_count(groups), 5);
        EXPECT_EQ(found.first, 5);
        std::vector<std::vector<Index>> tiles;
        for (const WatchedTile& one : found.tiles)
            tiles.push_back({one.cell, one.segment});
        EXPECT_EQ(tiles, (std::vector<std::vector<Index>>{{-1, 0}, {1, 0}, {2, 0}, {3, 1}, {-1, 0}}));
    }
    EXPECT_TRUE(watched_tiles_of({}).tiles.empty());
}

// The error comes before any memory is allocated for it.
TEST(Segments, OneThatBlocksCannotCountIsRefused) {
    const auto of = [](Index size) {
        return problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"x", size}}),
                                     problem::PartitionRule::by_shard, {});
    };
    constexpr Index most = (Index{1} << 32) - tile;
    EXPECT_EQ(checked_size(of(most)), most);
    EXPECT_THROW(static_cast<void>(checked_size(of(most + 1))), Error);
}

} // namespace
} // namespace truestep::gpu::scape
