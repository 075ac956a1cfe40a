// Times SCAPE's phases, whole steps, dense steps and launches on a CUDA device against a copy.
#include "gpu/measure.hpp"

#include <algorithm>
#include <chrono>
#include <memory>

#include <truestep/distributed/scape/scape.hpp>

#include "gpu/backend.hpp"
#include "gpu/dense.hpp"
#include "gpu/device.hpp"
#include "gpu/rank.hpp"
#include "peers/arithmetic.hpp"

namespace truestep::gpu::bench {

namespace {

constexpr double learning_rate = 1e-3;
/// Untimed rounds over all sets. In the first ten rounds the thresholds still move away from their
/// guesses (m and e begin at 0), and a selection with a wrong guess costs five more passes.
constexpr int warm_up = 12;
constexpr int copy_warm_up = 2;

/// Rows of one size, timed together with one copy.
class Block {
  public:
    Block(const Stream& stream, const Options& options)
        : stream_(stream), timer_(stream, options.device), copied_(copy_size()), from_(copied_),
          to_(copied_), samples_(options.samples) {
        stream_.fill(from_.data(), 1, copied_);
        for (int i = 0; i < copy_warm_up; ++i)
            copy();
        time_copy();
    }

    [[nodiscard]] Timer& timer() { return timer_; }

    /// Times the copy again; the rows then get its rate.
    [[nodiscard]] double copy_rate() {
        time_copy();
        return 2.0 * static_cast<double>(copied_) * sizeof(float) / median(copy_seconds_);
    }

  private:
    /// Reads 1 GiB and writes 1 GiB: many times the size of any cache.
    static Index copy_size() {
        constexpr Index most = Index{1} << 28;
        return std::min(most, static_cast<Index>(free_memory() / 8 / sizeof(float)));
    }
    void copy() {
        stream_.copy(to_.data(), from_.data(), static_cast<std::size_t>(copied_) * sizeof(float));
    }
    void time_copy() {
        for (int i = 0; i < samples_; ++i)
            timer_.time(copy_seconds_, [&] { copy(); });
        timer_.collect();
    }

    const Stream& stream_;
    Timer timer_;
    Index copied_;
    Floats from_;
    Floats to_;
    int samples_;
    std::vector<double> copy_seconds_;
};

/// How many sets of buffers take turns: enough to exceed the cache many times, at least two if they
/// fit, and 0 if not even one fits.
Index sets_of(double bytes, int device) {
    constexpr double times_cache = 16.0;
    constexpr double most = 96.0;
    constexpr double usable = 0.85;
    const double room = usable * static_cast<double>(free_memory());
    const double wanted =
        std::clamp(times_cache * static_cast<double>(cache_bytes(device)) / bytes, 2.0, most);
    return static_cast<Index>(std::min(wanted + 1.0, room / bytes));
}

Index rounds_of(Index sets, int samples) {
    return (samples + sets - 1) / sets;
}

std::string too_large(Index d, double bytes) {
    return "d = " + std::to_string(d) + ": SKIPPED, a set of buffers takes " +
           std::to_string(static_cast<std::int64_t>(bytes) >> 20) + " MiB, free are " +
           std::to_string(free_memory() >> 20U) + " MiB";
}

struct Set {
    std::unique_ptr<LocalRank> rank;
    Floats g;
};

/// Times the phases of a rank's step, and whole steps.
class RankRows {
  public:
    RankRows(const Options& options, const Stream& stream, Index d, double density)
        : options_(options), stream_(stream), setting_(d, density, options.workers) {}

    void measure(Report& report) {
        // w, e, g; packed vectors, received parts and selection's memory; masks with their ranks.
        // The scout's backend also exists while the sets start.
        const auto d = static_cast<double>(setting_.size);
        const double bytes = 12.0 * d + 4.0 * 5.0 * static_cast<double>(setting_.selected) +
                             static_cast<double>(setting_.shard) + 0.5 * d + 1e6;
        Block block(stream_, options_);
        const Index sets = sets_of(bytes, options_.device) - 1;
        if (sets < 1) {
            report.notes.push_back(too_large(setting_.size, bytes));
            return;
        }
        const Copy copy = [this](void* to, const void* from, std::size_t count) {
            stream_.copy(to, from, count);
        };
        const auto make = [this](const problem::Problem& problem, std::span<const float> w) {
            return make_backend(problem, w, options_.device, stream_);
        };
        const Index wrong =
            wrong_values(Setting(options_.check_size, setting_.density, options_.workers), make, copy, 4);
        start(sets, make, copy);

        std::vector<std::vector<double>> of_phase(phases.size());
        const Index rounds = rounds_of(sets, options_.samples);
        for (Index round = -warm_up; round < rounds; ++round)
            time_phases(block.timer(), of_phase, round >= 0);
        std::vector<double> of_step;
        std::vector<double> of_check;
        for (Index round = -warm_up; round < rounds; ++round)
            time_steps(block.timer(), of_step, of_check, round >= 0);
        std::vector<double> of_read;
        time_read(block.timer(), of_read, rounds);

        const double rate = block.copy_rate();
        const auto add = [&](std::string_view name, double moved, std::vector<double> seconds,
                             std::optional<Index> checked) {
            report.rows.push_back({std::string(name), setting_.size, setting_.density, moved,
                                   std::move(seconds), rate, checked});
        };
        const auto selected = [&](const scape::Guesses::Account& account) {
            report.rows.back().guesses = account;
        };
        for (const Phase phase : phases)
            if (const double moved = least_bytes(phase, setting_); moved > 0.0) {
                add(name(phase), moved, std::move(of_phase[static_cast<std::size_t>(phase)]), wrong);
                if (phase == Phase::select)
                    selected(in_phases_);
            }
        add(read_row, 4.0 * static_cast<double>(setting_.shard), std::move(of_read), {});
        add(step_row, least_bytes_of_step(setting_), of_step, wrong);
        selected(in_steps_);
        for (std::size_t i = 0; i < of_step.size(); ++i)
            of_step[i] += of_check[i];
        add("the same and the check", least_bytes_of_step(setting_) + least_bytes(Phase::check, setting_),
            std::move(of_step), wrong);
        selected(in_steps_);
    }

  private:
    void start(Index sets, const MakeBackend& make, const Copy& copy) {
        // Parameters repeat, since they do not influence any time.
        std::vector<float> w(static_cast<std::size_t>(setting_.size));
        constexpr std::size_t window = 1 << 20;
        for (std::size_t i = 0; i < w.size(); ++i)
            w[i] = i < window ? counter_value(1, static_cast<Index>(i)) : w[i - window];
        for (Index set = 0; set < sets; ++set)
            sets_.push_back({std::make_unique<LocalRank>(setting_, make(setting_.problem, w), copy),
                             Floats(setting_.size)});
        new_gradients();
        LocalRank scout(setting_, make(setting_.problem, w), copy);
        const std::uint8_t* const code = scout.scout(sets_.front().g.data());
        for (Set& set : sets_)
            set.rank->start(code, set.g.data());
        stream_.wait();
    }

    void new_gradients() {
        for (Set& set : sets_)
            stream_.fill(set.g.data(), ++seed_, setting_.size);
    }

    /// Times each phase on all sets before the next phase, so that a phase's inputs have left the
    /// cache.
    void time_phases(Timer& timer, std::vector<std::vector<double>>& seconds, bool timed) {
        new_gradients();
        for (const Phase phase : phases)
            for (Set& set : sets_)
                if (timed && phase != Phase::exchange)
                    timer.time(seconds[static_cast<std::size_t>(phase)],
                               [&] { set.rank->run(phase, set.g.data()); });
                else
                    set.rank->run(phase, set.g.data());
        timer.collect();
        if (timed)
            add_guesses(in_phases_);
    }

    /// Adds the account of each set's last selection.
    void add_guesses(scape::Guesses::Account& to) {
        for (Set& set : sets_)
            if (auto* const guesses = dynamic_cast<scape::Guesses*>(&set.rank->backend()))
                to += guesses->account();
    }

    /// Times whole steps on one set after the other, without the exchange.
    void time_steps(Timer& timer, std::vector<double>& steps, std::vector<double>& checks, bool timed) {
        std::vector<double> warm;
        new_gradients();
        for (Set& set : sets_) {
            timer.time(timed ? checks : warm, [&] { set.rank->run(Phase::check, set.g.data()); });
            timer.begin(timed ? steps : warm);
            for (const Phase phase : phases) {
                if (phase == Phase::check)
                    continue;
                if (phase == Phase::exchange)
                    timer.pause();
                set.rank->run(phase, set.g.data());
                if (phase == Phase::exchange)
                    timer.resume();
            }
            timer.end();
        }
        timer.collect();
        if (timed)
            add_guesses(in_steps_);
    }

    void time_read(Timer& timer, std::vector<double>& seconds, Index rounds) {
        const Floats seen(1);
        constexpr std::uint32_t never = 0x7fff'ffffU;
        for (Index round = 0; round < rounds; ++round) {
            new_gradients();
            for (Set& set : sets_)
                timer.time(seconds, [&] {
                    stream_.run<Read>(setting_.shard, {setting_.shard, set.g.data(), never,
                                                       reinterpret_cast<std::uint32_t*>(seen.data())});
                });
        }
        timer.collect();
    }

    const Options& options_;
    const Stream& stream_;
    Setting setting_;
    std::vector<Set> sets_;
    scape::Guesses::Account in_phases_;
    scape::Guesses::Account in_steps_;
    std::uint64_t seed_ = 100;
};

/// Buffers of a dense step on the device, `offset` floats off alignment.
struct DenseSet {
    explicit DenseSet(Index d, Index offset = 0)
        : size(d), shift(offset), w(d + offset), g(d + offset), m(d + offset), v(d + offset) {}

    void step(const Stream& stream, Dense kind, const distributed::Scalars& scalars) const {
        if (kind == Dense::adams)
            stream.run<AdamS>(size, {scalars, size, g.data() + shift, w.data() + shift, m.data() + shift});
        else
            stream.run<AdamW>(size, {scalars, size, g.data() + shift, w.data() + shift, m.data() + shift,
                                     v.data() + shift});
    }

    Index size;
    Index shift;
    Floats w;
    Floats g;
    Floats m;
    Floats v;
};

Index wrong_dense(Dense kind, const Options& options, const Stream& stream) {
    Index wrong = 0;
    for (const Index offset : {0, 1})
        wrong += wrong_parameters(kind, options.check_size, [&](const DenseSteps& steps) {
            const auto size = static_cast<Index>(steps.parameters.size());
            const std::size_t bytes = steps.parameters.size() * sizeof(float);
            const DenseSet set(size, offset);
            stream.clear(set.m.data(), size + offset);
            stream.clear(set.v.data(), size + offset);
            stream.copy(set.w.data() + offset, steps.parameters.data(), bytes);
            for (std::size_t step = 0; step < steps.gradients.size(); ++step) {
                stream.copy(set.g.data() + offset, steps.gradients[step].data(), bytes);
                set.step(stream, kind, steps.scalars[step]);
            }
            std::vector<float> result(steps.parameters.size());
            stream.copy(result.data(), set.w.data() + offset, bytes);
            stream.wait();
            return result;
        });
    return wrong;
}

void measure_dense(Report& report, const Options& options, const Stream& stream, Index d) {
    const double bytes = 16.0 * static_cast<double>(d);
    Block block(stream, options);
    const Index count = sets_of(bytes, options.device);
    if (count < 1) {
        report.notes.push_back(too_large(d, bytes));
        return;
    }
    std::vector<DenseSet> sets;
    for (Index set = 0; set < count; ++set) {
        sets.emplace_back(d);
        stream.fill(sets.back().w.data(), 1, d);
        stream.clear(sets.back().m.data(), d);
        stream.clear(sets.back().v.data(), d);
    }
    std::uint64_t seed = 0;
    std::vector<std::vector<double>> seconds(2);
    const Index rounds = rounds_of(count, options.samples);
    for (Index round = -warm_up; round < rounds; ++round) {
        for (const DenseSet& set : sets)
            stream.fill(set.g.data(), ++seed, d);
        for (const Dense kind : {Dense::adams, Dense::adamw}) {
            std::vector<double> warm;
            const auto scalars = peers::scalars_of({}, 1, round + warm_up + 1, learning_rate);
            for (const DenseSet& set : sets)
                block.timer().time(round < 0 ? warm : seconds[static_cast<std::size_t>(kind)],
                                   [&] { set.step(stream, kind, scalars); });
            block.timer().collect();
        }
    }
    const double rate = block.copy_rate();
    const auto per_parameter = static_cast<double>(d);
    report.rows.push_back({"dense AdamS, one pass", d, 0.0, 20.0 * per_parameter, std::move(seconds[0]),
                           rate, wrong_dense(Dense::adams, options, stream)});
    report.rows.push_back({"dense AdamW, one pass", d, 0.0, 28.0 * per_parameter, std::move(seconds[1]),
                           rate, wrong_dense(Dense::adamw, options, stream)});
}

/// Times whole steps of distributed::scape::Scape on a single rank by the host's clock, including
/// the waits for the check's verdict and the last one.
void measure_launches(Report& report, const Options& options, const Stream& stream, bool graph) {
    using Clock = std::chrono::steady_clock;
    constexpr int warm_steps = 10;
    const int steps = 4 * options.samples;
    const Setting setting(size_of_launches, options.densities.back(), 1);
    std::vector<float> w(static_cast<std::size_t>(setting.size));
    for (std::size_t i = 0; i < w.size(); ++i)
        w[i] = counter_value(1, static_cast<Index>(i));
    SingleRank alone = make_alone(setting.problem, w, options.device, graph);
    distributed::scape::Scape optimizer(setting.problem, {{0, setting.size}},
                                        problem::DensitySchedule::constant(setting.density),
                                        std::move(alone.backend), *alone.communicator, {});
    const Floats g(setting.size);
    Launch launch{setting.size, graph, {}, 0.0};
    for (int step = -warm_steps; step < steps; ++step) {
        stream.fill(g.data(), static_cast<std::uint64_t>(step) + warm_steps, setting.size);
        stream.wait();
        const auto begin = Clock::now();
        optimizer.step({g.data(), w.size()}, learning_rate);
        const std::chrono::duration<double> seconds = Clock::now() - begin;
        if (step >= 0)
            launch.seconds.push_back(seconds.count());
    }
    launch.least = (least_bytes_of_step(setting) + least_bytes(Phase::check, setting)) /
                   Block(stream, options).copy_rate();
    report.launches.push_back(std::move(launch));
}

} // namespace

Report measure(const Options& options) {
    Report report;
    const Stream stream(options.device);
    report.environment = environment_of(options.device);
    for (const Index d : options.sizes) {
        for (const double density : options.densities)
            RankRows(options, stream, d, density).measure(report);
        measure_dense(report, options, stream, d);
    }
    for (const bool graph : {false, true})
        measure_launches(report, options, stream, graph);
    return report;
}

} // namespace truestep::gpu::bench
