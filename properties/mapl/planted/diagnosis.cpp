// Tries MAPL's known bugs on one recorded boundary, and names those that make the recorded bits.
#include "diagnosis.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <truestep/gate/group.hpp>
#include <truestep/gate/hypotheses.hpp>
#include <truestep/verify/mapl/traces.hpp>

#include "boundary_recording.hpp"
#include "implementation.hpp"
#include "planted.hpp"

namespace truestep::properties::mapl {

namespace {

using Vectors = std::map<std::string, Floats>;

/// The stage before the boundary, or the one behind it: it sends what the recording holds.
class Recorded final : public Stage {
  public:
    explicit Recorded(const Vectors& vectors) : vectors_(vectors) {}
    Floats forward(Index step, Index micro, const Floats&) override { return at("X", step, micro); }
    Floats backward(Index step, Index micro, const Floats&) override { return at("G", step, micro); }

  private:
    [[nodiscard]] Floats at(const char* name, Index step, Index micro) const {
        return vectors_.at(verify::mapl::of_step(step + 1, verify::mapl::of_micro(name, micro + 1)));
    }
    const Vectors& vectors_;
};

/// The scenario of the recording, for implementations. The recording must outlive it.
Scenario scenario_of(const verify::mapl::Recording& recording) {
    const verify::mapl::Config& config = recording.config;
    const Settings& settings = config.settings;
    Scenario scenario;
    Case& run = scenario.run;
    run.rank = settings.rank;
    run.width = settings.width;
    run.tokens = config.tokens;
    run.vocabulary = settings.vocabulary;
    run.micro = config.micro;
    run.steps = config.steps;
    run.anchors = settings.anchors;
    run.order = settings.order;
    run.schedule = config.ascending ? Schedule::one_forward_one : Schedule::gpipe;
    run.data = DataClass::normal;
    run.payload = settings.payload;
    if (quantizes(settings)) {
        run.codewords = settings.quantization.codewords;
        run.groups = settings.quantization.groups;
        run.rounds = settings.quantization.rounds;
        run.subsets = settings.quantization.subsets;
    }
    scenario.settings = [settings](Index, Side) { return settings; };
    scenario.state = [&recording](Index, Side side) {
        const Vectors& held = recording.vectors;
        const auto of = [&](const std::string& name) {
            const auto found = held.find(name);
            return found == held.end() ? Floats() : found->second;
        };
        const bool sends = side == Side::sender;
        const bool two = recording.config.settings.anchors == Anchors::two;
        EndState state;
        // A of a later step may lie further off the manifold than an initial one.
        state.steps = std::max<Index>(1, recording.config.before / recording.config.micro);
        state.micro_batches = recording.config.before;
        state.a = of("initial/A");
        state.anchor = of(verify::mapl::of_step(1, sends || !two ? "E_sender" : "E_receiver"));
        state.rows = of(sends ? "P_sender" : "P_receiver");
        state.codebooks = of("initial/C");
        if (sends) {
            state.m = of("initial/m");
            state.learned = of("initial/L");
        }
        return state;
    };
    scenario.ids = [&recording](Index step, Index micro) {
        const verify::mapl::Config& of = recording.config;
        const auto begin = recording.numbers.at("ids").begin() + (step * of.micro + micro) * of.tokens;
        return std::vector<Id>(begin, begin + of.tokens);
    };
    scenario.stage = [&recording](int) { return std::make_unique<Recorded>(recording.vectors); };
    scenario.falling_rate = [&recording](Index step) {
        return recording.numbers.at("rate")[static_cast<std::size_t>(step)];
    };
    return scenario;
}

/// Whether a boundary makes this at a step; false for its inputs.
bool is_made(const std::string& name, const std::string& of) {
    if (!name.starts_with(of))
        return false;
    const std::string what = name.substr(of.size());
    return !what.starts_with("X.") && !what.starts_with("G.") && !what.starts_with("E_") &&
           !what.starts_with("gradient_");
}

/// The limit below which two sums over so many values may differ by rounding; a smaller difference is not
/// attributed to a bug.
double rounding_of(const Floats& values) {
    double greatest = 0.0;
    for (const float value : values)
        if (std::isfinite(value))
            greatest = std::max(greatest, std::abs(static_cast<double>(value)));
    constexpr double share = 1e-5;
    return share * greatest;
}

/// Whether 60 known bugs, each in plain loops, can be tried in seconds.
bool is_small(const verify::mapl::Config& config) {
    const auto products = static_cast<double>(config.micro * config.tokens + 30 * config.settings.rank) *
                          static_cast<double>(config.settings.width * config.settings.rank);
    return products <= 4e6 && config.settings.vocabulary * config.settings.rank <= 1 << 20;
}

} // namespace

std::vector<std::string> what_fits(const std::filesystem::path& path, const gate::FirstDifference& parted,
                                   gate::Gradients /*gradients*/) {
    const std::optional<verify::mapl::Recording> step =
        verify::mapl::steps_of(path, parted.step, parted.step);
    if (!step)
        return {};
    if (!is_small(step->config))
        return {
            "known bugs were not tried: micro-batches x tokens x width x rank are more than 4 million, or "
            "vocabulary x rank than one; record smaller micro-batches, or a smaller vocabulary"};
    // Tables that are trained between two steps are known at the beginning only.
    std::optional<verify::mapl::Recording> from;
    if (parted.step > 1 && !step->config.trains_anchors())
        from = verify::mapl::steps_of(path, parted.step - 1, parted.step);
    if (!from)
        from = step;
    const std::string last = verify::mapl::of_step(from->config.steps, "");
    std::vector<std::string> names;
    gate::SeenBits recorded;
    for (const auto& [name, values] : from->vectors)
        if (is_made(name, last)) {
            names.push_back(name);
            recorded.push_back(gate::seen_bits(values));
        }
    const Scenario scenario = scenario_of(*from);
    const auto group = gate::make_thread_group(std::chrono::seconds(10));
    const auto run = [&](int number) -> std::optional<gate::SeenBits> {
        const auto candidate = std::dynamic_pointer_cast<const Implementation>(planted(number, group));
        if (!candidate || !candidate->unavailable().empty())
            return std::nullopt;
        try {
            const verify::mapl::Recording made = recording_of(scenario, candidate->run(scenario), 0);
            gate::SeenBits all;
            for (const std::string& name : names) {
                const auto found = made.vectors.find(name);
                const Floats& values = from->vectors.at(name);
                all.push_back(found == made.vectors.end()
                                  ? std::vector<std::uint32_t>()
                                  : gate::bits_within(values, found->second, rounding_of(values)));
            }
            return all;
        } catch (const std::exception&) {
            return std::nullopt; // it does not get so far
        }
    };
    return gate::what_fits({known_bugs(), 1, recorded, run, "within rounding"});
}

} // namespace truestep::properties::mapl
