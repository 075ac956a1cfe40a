#include <scape/verify/diff.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

#include "replicas.hpp"

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
        if (is_replicated(kind))
            return kind.is_mask ? compare_replicas(kind, step, a_.replicated_mask(kind, step),
                                                   b_.replicated_mask(kind, step))
                                : compare_replicas(kind, step, a_.replicated_values(kind, step),
                                                   b_.replicated_values(kind, step));
        const auto of_a = a_.values(kind, step, rank);
        const auto of_b = b_.values(kind, step, rank);
        if (!of_a || !of_b)
            return note_absent(std::string(kind.name), of_a.has_value(), of_b.has_value());
        add(kind, step, kind.per_rank ? rank : Divergence::all_ranks,
            compare(*of_a, *of_b, Level::exact()));
    }

    /// Copies beside copies where both traces hold them; else what stands for all ranks in each.
    template <class Element>
    void compare_replicas(const ResultKind& kind, Index step, const Replicated<Element>& of_a,
                          const Replicated<Element>& of_b) {
        const Index size = a_.head().problem.layout.size();
        const std::string result(kind.name);
        const bool copies = !of_a.copies.empty() && !of_b.copies.empty();
        for (std::size_t rank = 0; copies && rank < of_a.copies.size() && !into_.result; ++rank)
            add(kind, step, static_cast<int>(rank),
                compare_bits(of_a.copies[rank], of_b.copies[rank], size));
        if (!copies) {
            note_absent("each rank's own " + result, !of_a.copies.empty(), !of_b.copies.empty());
            const auto* one_of_a = representative(of_a);
            const auto* one_of_b = representative(of_b);
            if (one_of_a != nullptr && one_of_b != nullptr)
                add(kind, step, Divergence::all_ranks, compare_bits(*one_of_a, *one_of_b, size));
            else
                note_absent(result, one_of_a != nullptr, one_of_b != nullptr);
        }
        if (!of_a.fingerprints || !of_b.fingerprints)
            return note_absent("the fingerprint of " + result, of_a.fingerprints.has_value(),
                               of_b.fingerprints.has_value());
        for (std::size_t rank = 0; rank < of_a.fingerprints->size() && !into_.result; ++rank) {
            Comparison comparison;
            comparison.compared = 1;
            comparison.mismatched = (*of_a.fingerprints)[rank] == (*of_b.fingerprints)[rank] ? 0 : 1;
            add(kind, step, static_cast<int>(rank), std::move(comparison));
        }
    }

    template <class Element>
    static const std::vector<Element>* representative(const Replicated<Element>& of) {
        return of.shared ? &*of.shared : of.copies.empty() ? nullptr : &of.copies.front();
    }

    void add(const ResultKind& kind, Index step, int rank, Comparison comparison) {
        into_.compared += comparison.compared;
        if (!comparison.ok() && !into_.result)
            into_.result = divergence(step, phase_of(kind.result, a_.head().problem),
                                      std::string(kind.name), rank, std::move(comparison));
    }

    /// What only one of the two holds is not compared, and is said once for each kind.
    void note_absent(const std::string& what, bool in_a, bool in_b) {
        if (in_a == in_b)
            return;
        const std::string note = what + " is not compared: only " +
                                 (in_a ? a_.path().string() : b_.path().string()) + " holds all of it";
        if (std::find(into_.notes.begin(), into_.notes.end(), note) == into_.notes.end())
            into_.notes.push_back(note);
    }

    static Divergence divergence(Index step, Phase phase, std::string result, int rank,
                                 Comparison comparison) {
        // Fingerprints differ at no index.
        std::optional<Index> index;
        if (!comparison.first.empty())
            index = comparison.first.front().index;
        const std::string note =
            index ? ""
                  : "the fingerprints differ; which index needs traces with copies (--replicas copies)";
        return {step, phase, std::move(result), rank, index, std::move(comparison), note};
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
