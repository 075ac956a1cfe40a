// The block algorithms in the host's form, beside the passes of distributed/, in every bit.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <scape/distributed/host_backend.hpp>
#include <scape/distributed/in_process.hpp>
#include <scape/distributed/kernels.hpp>
#include <scape/distributed/scape.hpp>
#include <scape/gpu/block_backend.hpp>
#include <scape/problem/error.hpp>

#include "algorithms/code.hpp"
#include "algorithms/local.hpp"
#include "algorithms/mask.hpp"
#include "algorithms/update.hpp"
#include <scape/gpu/host_machine.hpp>

namespace scape::gpu {
namespace {

using distributed::Backend;
using distributed::Mask;
using distributed::MaskCode;
using problem::BiasCorrection;
using Parts = std::vector<MaskCode::Part>;

struct Way {
    int threads;
    std::uint64_t seed;
    Index group_tiles;
};
constexpr Way ways[] = {{256, 1, 0}, {256, 2, 3}, {32, 3, 1}, {128, 4, 16}, {1024, 5, 2}};

std::vector<std::uint32_t> bits(const float* values, Index size) {
    std::vector<std::uint32_t> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(std::bit_cast<std::uint32_t>(values[i]));
    return result;
}
std::vector<std::uint32_t> bits(std::span<const float> values) {
    return bits(values.data(), static_cast<Index>(values.size()));
}
std::vector<std::uint64_t> bits(const Mask& mask) {
    return {mask.words(), mask.words() + mask.word_count()};
}

float normal(std::mt19937_64& random) {
    return std::normal_distribution<float>(0.0F, 1.0F)(random);
}

/// What a step's gradient is drawn from; `scale` jumps from step to step, so that thresholds do.
struct Data {
    std::string name;
    float (*value)(std::mt19937_64& random, Index index);
};
const std::vector<Data>& all_data() {
    static const std::vector<Data> all{
        {"normal", [](std::mt19937_64& random, Index) { return normal(random); }},
        {"equal", [](std::mt19937_64& random, Index) { return random() % 2 == 0 ? 0.3F : -0.3F; }},
        {"zero", [](std::mt19937_64& random, Index) { return random() % 2 == 0 ? 0.0F : -0.0F; }},
        {"few magnitudes",
         [](std::mt19937_64& random, Index) {
             const auto value = static_cast<float>(random() % 5);
             return random() % 2 == 0 ? value : -value;
         }},
        {"subnormal",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x0080'0000U));
         }},
        {"wide",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x5b80'0000U));
         }},
        {"one bin",
         [](std::mt19937_64& random, Index) {
             return std::bit_cast<float>(0x3f80'0000U + static_cast<std::uint32_t>(random() % 100));
         }},
        {"clustered", [](std::mt19937_64& random, Index index) {
             return index / 1000 % 7 == 0 ? 1.0F + 0.001F * normal(random) : 0.01F * normal(random);
         }}};
    return all;
}

std::vector<float> draw(const Data& data, std::mt19937_64& random, Index size, float scale = 1.0F) {
    std::vector<float> result;
    for (Index i = 0; i < size; ++i)
        result.push_back(data.value(random, i) * scale);
    return result;
}

Mask random_mask(std::mt19937_64& random, Index size, double density) {
    Mask mask(size);
    std::bernoulli_distribution chosen(density);
    for (Index i = 0; i < size; ++i)
        if (chosen(random))
            mask.set(i);
    mask.count();
    return mask;
}

/// A machine that does at once what it is told.
class Machine : public HostMachine {
  public:
    Machine(int threads, std::uint64_t seed) : HostMachine(HostStream(threads, seed), Exchange::host) {}

    template <class Algorithm>
    void run(Index blocks, const typename Algorithm::Arguments& arguments) {
        HostMachine::run<Algorithm>(blocks, arguments);
        finish();
    }
};

/// A mask where blocks compute.
struct BlockMask {
    BlockMask(Machine& machine, const Mask& mask) {
        const Index tiles = (mask.size() + tile - 1) / tile;
        const auto count = static_cast<Index>(mask.word_count());
        machine.resize(words, count);
        machine.resize(ranks, count);
        machine.resize(offsets, tiles + 1);
        machine.resize(counts, tiles);
        machine.upload(words.data(), mask.words(), count);
        machine.run<CountWords>((count + CountWords::words - 1) / CountWords::words,
                                {0, count, nullptr, view(), counts.data()});
        machine.run<Offsets>(Offsets::blocks(tiles), {counts.data(), tiles, offsets.data()});
    }
    MaskView view() { return {words.data(), ranks.data(), offsets.data()}; }

    HostMachine::Vector<std::uint64_t> words;
    HostMachine::Vector<std::uint16_t> ranks;
    HostMachine::Vector<Index> offsets;
    HostMachine::Vector<std::uint32_t> counts;
};

distributed::Scalars scalars() {
    distributed::Scalars s;
    s.b1 = 0.9F;
    s.a1 = 0.1F;
    s.b2 = 0.95F;
    s.a2 = 0.05F;
    s.epsilon = 1e-8F;
    s.learning_rate = 1e-3F;
    s.decay = 0.9999F;
    s.inv1 = 1.0F / 0.271F;
    s.invs2 = 1.5F;
    s.workers = 3.0F;
    return s;
}

constexpr Index sizes[] = {0, 1, 2, 3, 4, 5, 63, 64, 65, 127, 4095, 4096, 4097, 8192, 10001, 70'000};
constexpr double densities[] = {0.0, 0.01, 0.1, 0.5, 1.0};

class Blocks : public testing::TestWithParam<Way> {
  protected:
    Machine machine{GetParam().threads, GetParam().seed};
};
std::string way_name(const testing::TestParamInfo<Way>& info) {
    return std::to_string(info.param.threads) + "threads" + std::to_string(info.param.group_tiles) +
           "tiles";
}
INSTANTIATE_TEST_SUITE_P(Ways, Blocks, testing::ValuesIn(ways), way_name);

TEST_P(Blocks, OffsetsAreTheSumsOfWhatComesBefore) {
    std::mt19937_64 random(1);
    for (const Index size : sizes) {
        std::vector<std::uint32_t> counts;
        std::vector<Index> expected{0};
        for (Index i = 0; i < size; ++i) {
            counts.push_back(static_cast<std::uint32_t>(random()));
            expected.push_back(expected.back() + static_cast<Index>(counts.back()));
        }
        std::vector<Index> offsets(expected.size(), -1);
        machine.run<Offsets>(Offsets::blocks(size), {counts.data(), size, offsets.data()});
        ASSERT_EQ(offsets, expected) << size;
    }
}

TEST_P(Blocks, PlacesInAMaskAreThoseOfTheMask) {
    std::mt19937_64 random(2);
    for (const Index size : sizes)
        for (const double density : densities) {
            const Mask mask = random_mask(random, size, density);
            BlockMask here(machine, mask);
            ASSERT_EQ(here.offsets.data()[here.offsets.size() - 1], mask.selected());
            for (Index at = 0; at<size; at += size> 10'000 ? 61 : 1)
                ASSERT_EQ(before(here.view(), at), mask.offset(at)) << at << " of " << size;
        }
}

TEST_P(Blocks, ACorruptMaskIsEmptied) {
    std::mt19937_64 random(3);
    const Mask mask = random_mask(random, 9000, 0.3);
    BlockMask here(machine, mask);
    const std::uint32_t corrupt = 1;
    const auto count = static_cast<Index>(mask.word_count());
    machine.run<CountWords>((count + CountWords::words - 1) / CountWords::words,
                            {0, count, &corrupt, here.view(), here.counts.data()});
    machine.run<Offsets>(1, {here.counts.data(), 3, here.offsets.data()});
    EXPECT_EQ(here.offsets.data()[3], 0);
    EXPECT_TRUE(std::all_of(here.words.data(), here.words.data() + count,
                            [](std::uint64_t word) { return word == 0; }));
}

TEST_P(Blocks, InCommon) {
    std::mt19937_64 random(4);
    for (const Index size : {1, 64, 300'001}) {
        const Mask a = random_mask(random, size, 0.4);
        const Mask b = random_mask(random, size, 0.4);
        Index expected = 0;
        for (Index i = 0; i < size; ++i)
            expected += a.test(i) && b.test(i) ? 1 : 0;
        Index common = 0;
        const auto count = static_cast<Index>(a.word_count());
        machine.run<InCommon>((count + InCommon::words - 1) / InCommon::words,
                              {a.words(), b.words(), count, &common});
        EXPECT_EQ(common, expected);
    }
}

TEST_P(Blocks, FirstRefusedIsTheFirst) {
    std::mt19937_64 random(5);
    constexpr float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                             -std::numeric_limits<float>::infinity(), 0x1.000002p56F};
    for (const Index size : sizes)
        for (const Index at : {Index{0}, size / 2, size - 1, size}) {
            std::vector<float> g = draw(all_data()[0], random, size + 1);
            for (Index i = at; i < size; i += i == at ? 1 : 1 + static_cast<Index>(random() % 99))
                if (i >= 0)
                    g[static_cast<std::size_t>(i)] = bad[random() % 3];
            Index first = size;
            machine.run<FirstRefused>((size + tile - 1) / tile, {g.data(), size, &first});
            ASSERT_EQ(first, distributed::host::first_unacceptable(g.data(), 0, size))
                << at << " of " << size;
        }
}

TEST_P(Blocks, LocalPassAndExtract) {
    std::mt19937_64 random(6);
    for (const Index size : sizes)
        for (const double last_density : densities)
            for (const double density : densities)
                for (const Index unaligned : {0, 1}) {
                    const Mask last = random_mask(random, size, last_density);
                    const Mask current = random_mask(random, size, density);
                    BlockMask last_here(machine, last);
                    BlockMask current_here(machine, current);
                    const auto g = draw(all_data()[5], random, size + unaligned);
                    const auto e = draw(all_data()[0], random, size);
                    const auto m = draw(all_data()[0], random, last.selected());
                    const auto packed = static_cast<std::size_t>(current.selected());
                    std::vector<float> expected_e = e;
                    std::vector<float> expected_payload(packed);
                    std::vector<float> expected_m(packed);
                    distributed::host::local_pass(scalars(), 0, size, g.data() + unaligned,
                                                  expected_e.data(), last, m.data(), current,
                                                  expected_payload.data());
                    distributed::host::repack(0, size, last, m.data(), current, expected_m.data());
                    std::vector<float> result = e;
                    std::vector<float> payload(packed, 7.0F);
                    std::vector<float> moment(packed, 7.0F);
                    machine.run<LocalPass>((size + tile - 1) / tile,
                                           {scalars(), size, g.data() + unaligned, result.data(),
                                            last_here.view(), m.data(), current_here.view(), payload.data(),
                                            moment.data()});
                    ASSERT_EQ(bits(result), bits(expected_e)) << size << ' ' << density;
                    ASSERT_EQ(bits(payload), bits(expected_payload));
                    ASSERT_EQ(bits(moment), bits(expected_m));

                    result = e;
                    expected_e = e;
                    distributed::host::extract(0, size, expected_e.data(), current,
                                               expected_payload.data());
                    machine.run<Extract>(
                        (size + tile - 1) / tile,
                        {size, result.data(), current_here.view(), payload.data(), moment.data()});
                    ASSERT_EQ(bits(result), bits(expected_e));
                    ASSERT_EQ(bits(payload), bits(expected_payload));
                    ASSERT_EQ(bits(moment), bits(std::vector<float>(packed, 0.0F)));
                }
}

TEST_P(Blocks, Fold) {
    std::mt19937_64 random(7);
    for (const Index size : sizes)
        for (const int workers : {1, 2, 3, 7}) {
            distributed::Scalars s = scalars();
            s.workers = static_cast<float>(workers);
            const auto parts = draw(all_data()[0], random, size * workers);
            std::vector<float> expected(static_cast<std::size_t>(size));
            std::vector<float> mean(expected.size(), 7.0F);
            distributed::host::fold(s, workers, 0, size, parts.data(), size, expected.data());
            machine.run<Fold>((size + tile - 1) / tile,
                              {s.workers, workers, size, parts.data(), mean.data()});
            ASSERT_EQ(bits(mean), bits(expected)) << size;
        }
}

/// Sections 4.5 to 4.8 by the host's passes.
struct EndOfStep {
    EndOfStep(BiasCorrection correction, const distributed::Scalars& s, double clip_norm,
              const Mask& current, std::vector<float> moment, const std::vector<float>& m,
              std::vector<float> parameters)
        : M(std::move(moment)), w(std::move(parameters)) {
        const auto size = static_cast<Index>(M.size());
        std::vector<float> u(M.size());
        distributed::host::reconstruct(s, 0, size, M.data(), m.data(), u.data());
        if (clip_norm > 0.0) {
            std::vector<double> sums(static_cast<std::size_t>((size + 4095) / 4096));
            distributed::host::square_sums(0, static_cast<Index>(sums.size()), u.data(), size, sums.data());
            double total = 0.0;
            for (const double sum : sums)
                total += sum;
            norm = std::sqrt(total);
            factor = static_cast<float>(std::min(1.0, clip_norm / (norm + 1e-6)));
            distributed::host::clip(s, factor, 0, size, m.data(), u.data(), M.data());
        }
        distributed::host::directions(correction, s, 0, size, M.data(), m.data(), u.data(), u.data());
        finite = std::ranges::all_of(M, [](float value) { return std::isfinite(value); });
        finite =
            distributed::host::update(s, 0, static_cast<Index>(w.size()), w.data(), current, u.data()) &&
            finite;
    }
    std::vector<float> M;
    std::vector<float> w;
    double norm = 0.0;
    float factor = 1.0F;
    bool finite = true;
};

TEST_P(Blocks, EndOfAStep) {
    std::mt19937_64 random(8);
    for (const Index size : sizes)
        for (const double density : densities)
            for (const float decay : {0.9999F, 1.0F})
                for (const double clip_norm : {0.0, 0.5, 1e9})
                    for (const auto correction :
                         {BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum}) {
                        const Mask current = random_mask(random, size, density);
                        BlockMask here(machine, current);
                        distributed::Scalars s = scalars();
                        s.decay = decay;
                        const auto M = draw(all_data()[0], random, current.selected());
                        const auto m = draw(all_data()[0], random, current.selected());
                        auto w = draw(all_data()[0], random, size);
                        if (random() % 4 == 0 && size > 0)
                            w[random() % w.size()] = std::numeric_limits<float>::infinity();
                        const EndOfStep expected(correction, s, clip_norm, current, M, m, w);

                        Results results{};
                        const Index blocks = (current.selected() + 4095) / 4096;
                        std::vector<double> sums(static_cast<std::size_t>(blocks));
                        std::vector<float> moment = M;
                        if (clip_norm > 0.0) {
                            machine.run<SquareSums>(
                                blocks, {s, current.selected(), moment.data(), m.data(), sums.data()});
                            machine.run<Clip>(1, {blocks, sums.data(), clip_norm, &results});
                            ASSERT_EQ(std::bit_cast<std::uint64_t>(results.norm),
                                      std::bit_cast<std::uint64_t>(expected.norm));
                            ASSERT_EQ(results.clip_factor, expected.factor);
                        }
                        machine.run<Update>(
                            (size + tile - 1) / tile,
                            {s,
                             correction == BiasCorrection::momentum ? Direction::momentum : Direction::adam,
                             clip_norm > 0.0, size, w.data(), here.view(), moment.data(), m.data(),
                             &results});
                        ASSERT_EQ(bits(w), bits(expected.w)) << size << ' ' << density << ' ' << decay;
                        ASSERT_EQ(bits(moment), bits(expected.M));
                        ASSERT_EQ(results.not_finite == 0, expected.finite);
                    }
}

/// A scan whose first barrier is missing: threads read what others write in the same phase.
struct NoBarrier {
    struct Arguments {
        std::uint32_t* sums;
    };
    struct Shared {
        std::uint32_t values[most_threads];
    };
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) {
            shared.values[thread] = static_cast<std::uint32_t>(thread);
            a.sums[thread] = shared.values[thread] + (thread > 0 ? shared.values[thread - 1] : 0);
        });
    }
};
struct WithBarrier : NoBarrier {
    template <class Block>
    static void run(Block& block, Shared& shared, const Arguments& a) {
        block.phase([&](int thread) { shared.values[thread] = static_cast<std::uint32_t>(thread); });
        block.phase([&](int thread) {
            a.sums[thread] = shared.values[thread] + (thread > 0 ? shared.values[thread - 1] : 0);
        });
    }
};

TEST(Barrier, OneThatIsMissingShowsInAShuffledOrderOnly) {
    constexpr int threads = 256;
    std::vector<std::uint32_t> expected;
    for (std::uint32_t thread = 0; thread < threads; ++thread)
        expected.push_back(thread + (thread > 0 ? thread - 1 : 0));
    std::vector<std::uint32_t> sums(threads);
    Machine ascending(threads, 0);
    ascending.run<NoBarrier>(1, {sums.data()});
    EXPECT_EQ(sums, expected) << "the ascending order hides it";
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Machine shuffled(threads, seed);
        shuffled.run<NoBarrier>(1, {sums.data()});
        EXPECT_NE(sums, expected) << "seed " << seed;
        shuffled.run<WithBarrier>(1, {sums.data()});
        EXPECT_EQ(sums, expected) << "seed " << seed;
    }
}

/// Two backends, driven through the same steps as one rank of several; what others send is drawn.
class Pair {
  public:
    Pair(const Parts& all, std::size_t first_own, std::size_t last_own, const Way& way)
        : all_(all), own_(all.begin() + static_cast<std::ptrdiff_t>(first_own),
                          all.begin() + static_cast<std::ptrdiff_t>(last_own)),
          first_own_(first_own), size_(all.back().end), problem_(problem_of(size_)) {
        const auto w = draw(all_data()[0], random_, size_);
        host_ = distributed::make_host_backend(problem_, w);
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
                backend.local_pass(s, g.data());
            });
        }
        const Index selected = host_->current_mask().selected();
        ASSERT_EQ(bits(host_->payload(), selected), bits(blocks_->payload(), selected)) << name;
        ASSERT_EQ(bits(host_->residual()), bits(blocks_->residual())) << name;
        make_mask(seed + 1, name);
        const Index at = selected / 3;
        const Index count = selected / 2;
        each([&](Backend& backend) {
            std::mt19937_64 random(seed + 2);
            constexpr int ranks = 3;
            float* received = backend.received(count * ranks);
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
        return problem::make_problem(problem::Algorithm::scape, 1, problem::Layout({{"all", size, false}}),
                                     problem::PartitionRule::by_shard, {});
    }
    void each(const std::function<void(Backend&)>& act) {
        act(*host_);
        act(*blocks_);
    }
    void make_mask(std::uint64_t seed, const std::string& name) {
        // What the others send: of each segment k coordinates somewhere.
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
            backend.decode_mask(all_);
        });
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
                } catch (const distributed::CorruptMask&) {
                    expected = true;
                }
                const auto blocks = make_block_backend(problem, w, {64, 3, 0});
                std::copy(bad.begin(), bad.end(), blocks->mask_code(bad.size()));
                blocks->decode_mask(parts);
                if (expected) {
                    EXPECT_THROW(static_cast<void>(blocks->coming_mask()), distributed::CorruptMask);
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
                    distributed::Scape host(problem, ranges, problem::DensitySchedule::constant(density),
                                            distributed::make_host_backend(problem, w), communicator, {});
                    distributed::Scape blocks(problem, ranges, problem::DensitySchedule::constant(density),
                                              make_block_backend(problem, w, {128, 9, 2}), communicator,
                                              {});
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

} // namespace
} // namespace scape::gpu
