#include <scape/verify/diff.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::verify {

namespace {

void diff_configs(const TraceReader& a, const TraceReader& b, std::vector<std::string>& lines) {
    const auto config_a = nlohmann::json::parse(config_text(a.head().problem, a.head().steps()));
    const auto config_b = nlohmann::json::parse(config_text(b.head().problem, b.head().steps()));
    for (const auto& item : config_a.items())
        if (const auto& other = config_b.at(item.key()); item.value() != other)
            lines.push_back("config " + item.key() + ": " +
                            (item.value().is_array() ? "the lists differ"
                                                     : item.value().dump() + " against " + other.dump()));
}

template <class Real>
void diff_series(const std::string& name, const std::vector<Real>& a, const std::vector<Real>& b,
                 std::vector<std::string>& lines) {
    using Bits = std::conditional_t<sizeof(Real) == 4, std::uint32_t, std::uint64_t>;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (std::bit_cast<Bits>(a[i]) != std::bit_cast<Bits>(b[i])) {
            lines.push_back(name + ", entry " + std::to_string(i) + ": " + shortest(a[i]) + " against " +
                            shortest(b[i]));
            return;
        }
}

/// Compares the steps that both traces have.
class StepDiff {
  public:
    StepDiff(const TraceReader& a, const TraceReader& b, TraceDifference& into)
        : a_(a), b_(b), into_(into) {}

    void compare_step(Index step) {
        for (int rank = 0; rank < a_.head().problem.workers && !into_.input; ++rank)
            if (auto comparison = compare(a_.gradient(step, rank), b_.gradient(step, rank), Level::exact());
                !comparison.ok())
                into_.input = divergence(step, Phase::check, "gradient", rank, std::move(comparison));
        for (const ResultKind& kind : result_kinds)
            for (int rank = 0; rank < (kind.per_rank ? a_.head().problem.workers : 1) && !into_.result;
                 ++rank)
                compare_result(kind, step, rank);
    }

  private:
    void compare_result(const ResultKind& kind, Index step, int rank) {
        Comparison comparison;
        if (kind.is_mask) {
            const auto of_a = a_.mask(kind, step);
            const auto of_b = b_.mask(kind, step);
            if (!of_a || !of_b)
                return note_absent(kind, of_a.has_value(), of_b.has_value());
            comparison = compare_masks(*of_a, *of_b, a_.head().problem.layout.size());
        } else {
            const auto of_a = a_.values(kind, step, rank);
            const auto of_b = b_.values(kind, step, rank);
            if (!of_a || !of_b)
                return note_absent(kind, of_a.has_value(), of_b.has_value());
            comparison = compare(*of_a, *of_b, Level::exact());
        }
        into_.compared += comparison.compared;
        if (!comparison.ok())
            into_.result =
                divergence(step, phase_of(kind.result, a_.head().problem), std::string(kind.name),
                           kind.per_rank ? rank : Divergence::all_ranks, std::move(comparison));
    }

    /// What only one of the two holds is not compared, and is said once for each kind.
    void note_absent(const ResultKind& kind, bool in_a, bool in_b) {
        if (in_a == in_b)
            return;
        const std::string note = std::string(kind.name) + " is not compared: only " +
                                 (in_a ? a_.path().string() : b_.path().string()) + " holds all of it";
        if (std::find(into_.notes.begin(), into_.notes.end(), note) == into_.notes.end())
            into_.notes.push_back(note);
    }

    static Divergence divergence(Index step, Phase phase, std::string result, int rank,
                                 Comparison comparison) {
        const Index index = comparison.first.front().index;
        return {step, phase, std::move(result), rank, index, std::move(comparison), {}};
    }

    const TraceReader& a_;
    const TraceReader& b_;
    TraceDifference& into_;
};

} // namespace

TraceDifference diff_traces(const std::filesystem::path& path_a, const std::filesystem::path& path_b) {
    const TraceReader a(path_a);
    const TraceReader b(path_b);
    TraceDifference difference{{}, {}, {}, 0, {}, a.head().problem.layout};
    diff_configs(a, b, difference.settings);
    diff_series("learning_rate", a.head().learning_rate, b.head().learning_rate, difference.settings);
    diff_series("density", a.head().density, b.head().density, difference.settings);
    diff_series("initial/parameters", a.head().initial_parameters, b.head().initial_parameters,
                difference.settings);
    const bool comparable = a.head().problem.layout == b.head().problem.layout &&
                            a.head().problem.workers == b.head().problem.workers;
    if (!comparable) {
        difference.notes.emplace_back(
            "the steps are not compared: the models or the numbers of workers differ");
        return difference;
    }
    StepDiff steps(a, b, difference);
    for (Index step = 1; step <= std::min(a.head().steps(), b.head().steps()); ++step)
        steps.compare_step(step);
    if (difference.compared == 0)
        throw Error(
            path_a.string() + " and " + path_b.string() +
            " have no result in common, so there is nothing to compare; record the same results in both");
    return difference;
}

} // namespace scape::verify
