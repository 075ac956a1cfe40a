// Compares sizes of mask codes on the wire with the code in use and with the entropy, on masks of a
// run. Codes known only by formula are counted in bytes. Library codes and ours are also timed, in
// turns.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/optimizer.hpp>

#ifdef TRUESTEP_BENCH_ROARING
#include <roaring/roaring.h>
#endif
#ifdef TRUESTEP_BENCH_ZSTD
#include <zstd.h>
#endif

#include "benchmark_out.hpp"
#include "measure.hpp"
#include "random_gradient.hpp"

namespace {

using namespace truestep;
using distributed::Mask;
using distributed::scape::MaskCode;
using problem::Index;
using Bytes = std::vector<std::uint8_t>;

struct Options {
    Index size = Index{1} << 22;
    std::vector<double> densities{0.01, 0.1};
    int steps = 8;
    int rounds = 5;
    std::string benchmark_out;
};

/// Masks of two consecutive steps.
struct Masks {
    Mask last;
    Mask mask;
};

Masks masks_of(Index size, double density, int steps) {
    distributed::InProcessGroup group(1);
    const auto communicator = group.communicator(0);
    Settings settings;
    settings.density = DensitySchedule::constant(density);
    const auto d = static_cast<std::size_t>(size);
    auto optimizer = make_optimizer(Layout({{"all", size, false}}), settings, *communicator,
                                    std::vector<float>(d, 1.0F));
    std::vector<float> gradient(d);
    Masks result{Mask(size), Mask(size)};
    for (int step = 1; step <= steps; ++step) {
        bench::fill_with_random(gradient, 0, step);
        optimizer->step(gradient, 1e-3);
        result.last = result.mask;
        result.mask = optimizer->coming_mask();
    }
    return result;
}

// ------------------------------------------------------------------------------------------------------------
// what is only counted, in bits

/// The entropy in bits of n coordinates of which k are selected, all equally likely.
double entropy(double n, double k) {
    const auto part = [n](double x) { return x <= 0 ? 0.0 : x * std::log2(n / x); };
    return part(k) + part(n - k);
}

/// The entropy that remains if the last mask is known.
double entropy_beside(const Masks& masks) {
    Index kept = 0;
    for (std::size_t i = 0; i < masks.mask.word_count(); ++i)
        kept += std::popcount(masks.mask.words()[i] & masks.last.words()[i]);
    const auto d = static_cast<double>(masks.mask.size());
    const auto before = static_cast<double>(masks.last.selected());
    return entropy(before, static_cast<double>(kept)) +
           entropy(d - before, static_cast<double>(masks.mask.selected() - kept));
}

/// A count for each block, and positions of fixed width in it; blocks of 2^b coordinates, for the
/// best b.
double packed_positions(const Mask& mask) {
    double least = std::numeric_limits<double>::infinity();
    for (int b = 2; b <= 16; ++b) {
        const double blocks = std::ceil(std::ldexp(static_cast<double>(mask.size()), -b));
        least = std::min(least, blocks * (b + 1) + static_cast<double>(mask.selected()) * b);
    }
    return least;
}

/// The gaps between positions in the best Rice code.
double rice(const Mask& mask) {
    std::array<double, 16> bits{};
    Index last = -1;
    for (Index i = 0; i < mask.size(); ++i)
        if (mask.test(i)) {
            const Index gap = i - last - 1;
            for (unsigned r = 0; r < bits.size(); ++r)
                bits[r] += static_cast<double>((gap >> r) + 1 + r);
            last = i;
        }
    return *std::min_element(bits.begin(), bits.end());
}

/// Blocks of 255: a count, and the block's number among all blocks with this count.
double enumerated(const Mask& mask) {
    double bits = 0;
    for (Index begin = 0; begin < mask.size(); begin += 255) {
        const Index n = std::min<Index>(255, mask.size() - begin);
        double count = 0;
        for (Index i = begin; i < begin + n; ++i)
            count += mask.test(i) ? 1 : 0;
        const auto size = static_cast<double>(n);
        const double ways =
            (std::lgamma(size + 1) - std::lgamma(count + 1) - std::lgamma(size - count + 1)) /
            std::numbers::ln2;
        bits += 8 + std::ceil(ways - 1e-6);
    }
    return bits;
}

// ------------------------------------------------------------------------------------------------------------
// what there is

struct Code {
    std::string name;
    std::function<Bytes(const Mask&)> encode;
    std::function<void(const Bytes&, Mask&)> decode;
};

Bytes ours(const Mask& mask) {
    const std::vector<MaskCode::Part> all{{0, mask.size(), mask.selected()}};
    Bytes code(MaskCode::bytes(all));
    MaskCode::encode(all, mask, code.data());
    return code;
}

std::vector<Code> codes(Index k) {
    std::vector<Code> result;
    const auto decode_ours = [k](const Bytes& code, Mask& mask) {
        MaskCode::decode(std::vector<MaskCode::Part>{{0, mask.size(), k}}, code.data(), mask);
    };
    result.push_back({"the code in use", ours, decode_ours});
#ifdef TRUESTEP_BENCH_ZSTD
    const auto compressed = [](const Bytes& bytes, int level) {
        Bytes code(ZSTD_compressBound(bytes.size()));
        code.resize(ZSTD_compress(code.data(), code.size(), bytes.data(), bytes.size(), level));
        return code;
    };
    for (const int level : {1, 3, 19}) {
        const std::string name = "zstd " + std::to_string(level) + ", of ";
        result.push_back({name + "the bitmap",
                          [=](const Mask& mask) {
                              Bytes bitmap(mask.word_count() * sizeof(std::uint64_t));
                              std::memcpy(bitmap.data(), mask.words(), bitmap.size());
                              return compressed(bitmap, level);
                          },
                          [](const Bytes& code, Mask& mask) {
                              ZSTD_decompress(mask.words(), mask.word_count() * sizeof(std::uint64_t),
                                              code.data(), code.size());
                          }});
        result.push_back({name + "the code in use",
                          [=](const Mask& mask) { return compressed(ours(mask), level); },
                          [=](const Bytes& code, Mask& mask) {
                              Bytes bytes(distributed::scape::coded_bytes(mask.size(), k));
                              ZSTD_decompress(bytes.data(), bytes.size(), code.data(), code.size());
                              decode_ours(bytes, mask);
                          }});
    }
#endif
#ifdef TRUESTEP_BENCH_ROARING
    result.push_back({"Roaring",
                      [](const Mask& mask) {
                          std::vector<std::uint32_t> positions;
                          for (std::size_t i = 0; i < mask.word_count(); ++i)
                              for (std::uint64_t bits = mask.words()[i]; bits != 0; bits &= bits - 1)
                                  positions.push_back(static_cast<std::uint32_t>(64 * i) +
                                                      static_cast<std::uint32_t>(std::countr_zero(bits)));
                          roaring_bitmap_t* bitmap =
                              roaring_bitmap_of_ptr(positions.size(), positions.data());
                          roaring_bitmap_run_optimize(bitmap);
                          Bytes code(roaring_bitmap_portable_size_in_bytes(bitmap));
                          roaring_bitmap_portable_serialize(bitmap, reinterpret_cast<char*>(code.data()));
                          roaring_bitmap_free(bitmap);
                          return code;
                      },
                      [k](const Bytes& code, Mask& mask) {
                          roaring_bitmap_t* bitmap = roaring_bitmap_portable_deserialize_safe(
                              reinterpret_cast<const char*>(code.data()), code.size());
                          std::vector<std::uint32_t> positions(static_cast<std::size_t>(k));
                          roaring_bitmap_to_uint32_array(bitmap, positions.data());
                          roaring_bitmap_free(bitmap);
                          mask.clear();
                          for (const std::uint32_t position : positions)
                              mask.set(position);
                      }});
#endif
    return result;
}

// ------------------------------------------------------------------------------------------------------------

struct Taken {
    std::size_t bytes = 0;
    bench::Samples encoding;
    bench::Samples decoding;
};

/// Times all codes in turns, so that disturbances affect them equally.
std::vector<Taken> take(const std::vector<Code>& all, const Mask& mask, int rounds) {
    std::vector<Taken> result(all.size());
    Mask decoded(mask.size());
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < all.size(); ++i) {
            Bytes code;
            result[i].encoding.push_back(bench::seconds_of([&] { code = all[i].encode(mask); }));
            decoded.clear();
            result[i].decoding.push_back(bench::seconds_of([&] { all[i].decode(code, decoded); }));
            result[i].bytes = code.size();
            if (!std::equal(mask.words(), mask.words() + mask.word_count(), decoded.words()))
                throw Error("a mask of " + std::to_string(mask.size()) +
                            " coordinates came back as another from '" + all[i].name + "'");
        }
    return result;
}

/// Times are a thread's processor time.
void add_rows(std::vector<bench::BenchmarkRow>& rows, const Options& options, double density,
              std::string code, const Taken& taken) {
    std::erase(code, ',');
    std::ranges::replace(code, ' ', '_');
    char tail[64];
    std::snprintf(tail, sizeof tail, "/%s/d:%lld/density:%g", code.c_str(),
                  static_cast<long long>(options.size), density);
    for (const auto& [what, seconds] :
         {std::pair{"mask_sizes/encode", &taken.encoding}, std::pair{"mask_sizes/decode", &taken.decoding}})
        rows.push_back({std::string(what) + tail,
                        *seconds,
                        median(*seconds),
                        {{"code_bytes", static_cast<double>(taken.bytes)}}});
}

void report(const Options& options, double density, std::vector<bench::BenchmarkRow>& rows) {
    const Masks masks = masks_of(options.size, density, options.steps);
    const auto d = static_cast<double>(options.size);
    const double least = entropy(d, static_cast<double>(masks.mask.selected()));
    std::printf("d = %lld, density %g\n  %-34s %9s %11s %9s %9s\n", static_cast<long long>(options.size),
                density, "", "B/param", "of entropy", "x encode", "x decode");
    const auto size = [&](const std::string& name, double bits) {
        std::printf("  %-34s %9.5f %11.3f", name.c_str(), bits / 8 / d, bits / least);
    };
    const auto counted = [&](const std::string& name, double bits) {
        size(name, bits);
        std::printf("\n");
    };
    counted("entropy", least);
    counted("entropy, the last mask known", entropy_beside(masks));
    counted("bitmap", d);
    counted("blocks of 255, enumerated", enumerated(masks.mask));
    counted("gaps, Rice", rice(masks.mask));
    counted("blocks, positions packed", packed_positions(masks.mask));
    const std::vector<Code> all = codes(masks.mask.selected());
    const std::vector<Taken> taken = take(all, masks.mask, options.rounds);
    for (std::size_t i = 0; i < all.size(); ++i) {
        add_rows(rows, options, density, all[i].name, taken[i]);
        size(all[i].name, 8.0 * static_cast<double>(taken[i].bytes));
        std::printf(" %9.2f %9.2f\n", median(taken[i].encoding) / median(taken[0].encoding),
                    median(taken[i].decoding) / median(taken[0].decoding));
    }
#ifndef TRUESTEP_BENCH_ZSTD
    std::printf("  zstd: SKIPPED: built without it; Debian has it as libzstd-dev\n");
#endif
#ifndef TRUESTEP_BENCH_ROARING
    std::printf("  Roaring: SKIPPED: built without it; Debian has it as libroaring-dev\n");
#endif
}

} // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Sizes of codes of a mask, beside the code in use and the entropy.");
    app.add_option("-d,--size", options.size, "parameters")->check(CLI::Range(Index{1}, Index{1} << 30));
    app.add_option("--densities", options.densities)->delimiter(',')->check(CLI::Range(1e-6, 0.5));
    app.add_option("--steps", options.steps, "before the mask")->check(CLI::Range(2, 1000));
    app.add_option("--rounds", options.rounds)->check(CLI::PositiveNumber);
    app.add_option(bench::benchmark_out_option, options.benchmark_out, bench::benchmark_out_help);
    CLI11_PARSE(app, argc, argv);
    try {
        std::vector<bench::BenchmarkRow> rows;
        for (const double density : options.densities)
            report(options, density, rows);
        bench::write_benchmark_out(options.benchmark_out, rows);
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_mask_sizes: %s\n", error.what());
        return 2;
    }
}
