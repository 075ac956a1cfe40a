// Compares two traces of one system bit by bit: settings, inputs and results.
#include <truestep/verify/diff.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/replicas.hpp>

namespace truestep::verify {

namespace {

using trace::Reader;

void diff_configs(const Reader& a, const Reader& b, std::vector<std::string>& lines) {
    const auto config_a = nlohmann::json::parse(a.schema().config);
    const auto config_b = nlohmann::json::parse(b.schema().config);
    for (const auto& item : config_a.items()) {
        const auto other = config_b.find(item.key());
        if (other == config_b.end())
            lines.push_back("config " + item.key() + ": only the first has it");
        else if (item.value() != *other)
            lines.push_back("config " + item.key() + ": " +
                            (item.value().is_array() ? "the lists differ"
                                                     : item.value().dump() + " against " + other->dump()));
    }
    for (const auto& item : config_b.items())
        if (!config_a.contains(item.key()))
            lines.push_back("config " + item.key() + ": only the second has it");
}

std::uint64_t bits_of(double value) {
    return std::bit_cast<std::uint64_t>(value);
}
std::uint64_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}
std::uint64_t bits_of(std::uint8_t value) {
    return value;
}

template <class Element>
void diff_series(const std::string& name, const std::vector<Element>& a, const std::vector<Element>& b,
                 std::vector<std::string>& lines) {
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (bits_of(a[i]) != bits_of(b[i])) {
            const auto told = [](Element value) {
                if constexpr (sizeof value == 1)
                    return "byte " + std::to_string(static_cast<int>(value));
                else
                    return shortest(value);
            };
            lines.push_back(name + ", entry " + std::to_string(i) + ": " + told(a[i]) + " against " +
                            told(b[i]));
            return;
        }
}

void diff_all_series(const Reader& a, const Reader& b, std::vector<std::string>& lines) {
    const auto has = [](const Reader& trace, const std::string& name) {
        return std::ranges::find(trace.schema().series, name, &trace::Series::name) !=
               trace.schema().series.end();
    };
    for (const trace::Series& series : b.schema().series)
        if (!has(a, series.name))
            lines.push_back(series.name + ": only the second has it");
    for (const trace::Series& series : a.schema().series)
        if (!has(b, series.name))
            lines.push_back(series.name + ": only the first has it");
        else if (series.type == trace::DataType::f64)
            diff_series(series.name, a.series_f64(series.name), b.series_f64(series.name), lines);
        else if (series.type == trace::DataType::u8)
            diff_series(series.name, a.series_u8(series.name), b.series_u8(series.name), lines);
        else
            diff_series(series.name, a.series_f32(series.name), b.series_f32(series.name), lines);
}

/// Compares the steps that both traces hold.
class StepDiff {
  public:
    StepDiff(const Reader& a, const Reader& b, TraceDifference& into) : a_(a), b_(b), into_(into) {}

    void compare_step(Index step) {
        for (const trace::Kind& kind : a_.schema().inputs)
            for (int rank = 0; rank < ranks_of(kind) && !into_.input; ++rank)
                compare_input(kind, step, rank);
        for (const trace::Result& result : a_.schema().results)
            for (int rank = 0; rank < ranks_of(result.kind) && !into_.result; ++rank)
                compare_result(result, step, rank);
        for (const trace::Result& result : b_.schema().results)
            if (std::ranges::none_of(a_.schema().results, [&](const trace::Result& other) {
                    return other.kind.name == result.kind.name;
                }))
                note_absent(std::string(result.kind.name), false, true);
    }

  private:
    [[nodiscard]] int ranks_of(const trace::Kind& kind) const {
        return kind.per_rank ? a_.schema().workers : 1;
    }

    /// Skips an input that only one trace has: that is a difference of their settings.
    void compare_input(const trace::Kind& kind, Index step, int rank) {
        if (!a_.schema().has_input(kind, step, rank) || !b_.schema().has_input(kind, step, rank))
            return;
        auto comparison = compare(a_.input(kind, step, rank), b_.input(kind, step, rank), Level::exact());
        if (!comparison.ok())
            into_.input = divergence(step, "input", name(kind),
                                     kind.per_rank ? rank : Divergence::all_ranks, std::move(comparison));
    }

    void compare_result(const trace::Result& result, Index step, int rank) {
        const trace::Kind& kind = result.kind;
        if (is_replicated(kind))
            return kind.is_mask ? compare_replicas(result, step, a_.replicated_mask(kind, step),
                                                   b_.replicated_mask(kind, step))
                                : compare_replicas(result, step, a_.replicated_values(kind, step),
                                                   b_.replicated_values(kind, step));
        const auto of_a = a_.values(kind, step, rank);
        const auto of_b = b_.values(kind, step, rank);
        if (!of_a || !of_b)
            return note_absent(std::string(kind.name), of_a.has_value(), of_b.has_value());
        add(result, step, kind.per_rank ? rank : Divergence::all_ranks,
            compare(*of_a, *of_b, Level::exact()));
    }

    /// Compares copies with copies if both traces hold them; otherwise the values that represent
    /// all ranks in each.
    template <class Element>
    void compare_replicas(const trace::Result& result, Index step,
                          const trace::ReplicatedValues<Element>& of_a,
                          const trace::ReplicatedValues<Element>& of_b) {
        const Index size = a_.schema().layout.size();
        const std::string what(result.kind.name);
        const bool copies = !of_a.copies.empty() && !of_b.copies.empty();
        for (std::size_t rank = 0; copies && rank < of_a.copies.size() && !into_.result; ++rank)
            add(result, step, static_cast<int>(rank),
                compare_bits(of_a.copies[rank], of_b.copies[rank], size));
        if (!copies) {
            note_absent("each rank's own " + what, !of_a.copies.empty(), !of_b.copies.empty());
            const auto* one_of_a = representative(of_a);
            const auto* one_of_b = representative(of_b);
            if (one_of_a != nullptr && one_of_b != nullptr)
                add(result, step, Divergence::all_ranks, compare_bits(*one_of_a, *one_of_b, size));
            else
                note_absent(what, one_of_a != nullptr, one_of_b != nullptr);
        }
        if (!of_a.fingerprints || !of_b.fingerprints)
            return note_absent("the fingerprint of " + what, of_a.fingerprints.has_value(),
                               of_b.fingerprints.has_value());
        for (std::size_t rank = 0; rank < of_a.fingerprints->size() && !into_.result; ++rank) {
            Comparison comparison;
            comparison.compared = 1;
            comparison.mismatched = (*of_a.fingerprints)[rank] == (*of_b.fingerprints)[rank] ? 0 : 1;
            add(result, step, static_cast<int>(rank), std::move(comparison));
        }
    }

    template <class Element>
    static const std::vector<Element>* representative(const trace::ReplicatedValues<Element>& of) {
        return of.shared ? &*of.shared : of.copies.empty() ? nullptr : &of.copies.front();
    }

    void add(const trace::Result& result, Index step, int rank, Comparison comparison) {
        into_.compared += comparison.compared;
        if (!comparison.ok() && !into_.result)
            into_.result =
                divergence(step, result.phase, std::string(result.kind.name), rank, std::move(comparison));
    }

    /// Notes, once for each kind, that a result held by only one trace is not compared.
    void note_absent(const std::string& what, bool in_a, bool in_b) {
        if (in_a == in_b)
            return;
        const std::string note = what + " is not compared: only " +
                                 (in_a ? a_.path().string() : b_.path().string()) + " holds all of it";
        if (std::find(into_.notes.begin(), into_.notes.end(), note) == into_.notes.end())
            into_.notes.push_back(note);
    }

    static Divergence divergence(Index step, std::string phase, std::string result, int rank,
                                 Comparison comparison) {
        const std::optional<Index> index = comparison.first_wrong();
        const std::string note =
            index ? ""
                  : "the fingerprints differ; which index needs traces with copies (--replicas copies)";
        return {step, std::move(phase), std::move(result), rank, index, std::move(comparison), note};
    }

    const Reader& a_;
    const Reader& b_;
    TraceDifference& into_;
};

} // namespace

TraceDifference diff_traces(const Reader& a, const Reader& b) {
    TraceDifference difference{{}, {}, {}, 0, {}, a.schema().layout};
    diff_configs(a, b, difference.settings);
    diff_all_series(a, b, difference.settings);
    const bool comparable =
        a.schema().layout == b.schema().layout && a.schema().workers == b.schema().workers;
    if (!comparable) {
        difference.notes.emplace_back(
            "the steps are not compared: the models or the numbers of workers differ");
        return difference;
    }
    StepDiff steps(a, b, difference);
    for (Index step = 1; step <= std::min(a.schema().steps, b.schema().steps); ++step)
        steps.compare_step(step);
    if (difference.compared == 0)
        throw Error(
            a.path().string() + " and " + b.path().string() +
            " have no result in common, so there is nothing to compare; record the same results in both");
    return difference;
}

} // namespace truestep::verify
