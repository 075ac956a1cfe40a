// A payload of bf16 that would overflow (section 21). Gradients do not lead there, so the run begins at a
// state.
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include <truestep/properties/scape/implementations.hpp>

#include "generators.hpp"
#include "support.hpp"

namespace truestep::properties::scape {

namespace {

/// Residuals around the greatest bf16: halfway to 2^128, and the nearest to that.
float nearly_too_large(std::uint64_t drawn) {
    constexpr float halfway = 0x1.FFp127F; // the least that rounds to no finite number
    constexpr float greatest = 0x1.FEp127F;
    const std::array<float, 6> values{
        halfway,  std::nextafter(halfway, 0.0F),  std::numeric_limits<float>::max(),
        -halfway, -std::nextafter(halfway, 0.0F), greatest};
    return values[drawn % values.size()];
}

bool travels(float value) {
    return std::abs(value) < 0x1.FFp127F;
}

/// One rank's residual holds such a value, or all ranks' do. The next step's mask mostly has its
/// coordinate; otherwise the mask after it may.
InitialState nearly_overflowing(const Case& run, std::size_t rank) {
    const auto at = static_cast<std::size_t>(run.chosen_place % run.size());
    InitialState begun;
    begun.step = 1;
    begun.residual.assign(static_cast<std::size_t>(run.workers),
                          std::vector<float>(static_cast<std::size_t>(run.size()), 0.0F));
    for (std::size_t of = 0; of < begun.residual.size(); ++of)
        if (of == rank || run.chosen_place / 7 % 4 == 3)
            begun.residual[of][at] = nearly_too_large(run.seed);
    begun.mask.assign(static_cast<std::size_t>((run.size() + 7) / 8), 0);
    for (Index index = 0; index < run.size(); ++index)
        begun.mask[static_cast<std::size_t>(index / 8)] |=
            static_cast<std::uint8_t>(1U << static_cast<unsigned>(index % 8));
    if (run.size() > 1 && run.chosen_place / 5 % 3 == 2)
        begun.mask[at / 8] ^= static_cast<std::uint8_t>(1U << (at % 8));
    return begun;
}

std::optional<std::size_t> first_refused(const RunRecording& history) {
    for (std::size_t action = 0; action < history.after.size(); ++action)
        if (history.after[action].outcomes.front().kind == Outcome::Kind::refused)
            return action;
    return std::nullopt;
}

void overflow_is_refused(Trial& trial) {
    const Case& run = trial.run();
    const auto rank = static_cast<std::size_t>(run.chosen_rank % run.workers);
    Scenario scenario = trial.steps();
    scenario.setup.begun = nearly_overflowing(run, rank);
    RunRecording expected = reference_implementation()->run(scenario);
    const auto refused = first_refused(expected);
    trial.classify(travels(nearly_too_large(run.seed)), "nearly too large a payload");
    trial.classify(refused.has_value(), "too large a payload");
    trial.classify(refused.value_or(0) > 0, "too large in a later step");
    if (refused && run.chosen_place / 3 % 2 == 1) {
        // A refused gradient comes first, whatever its rank.
        auto& gradients = scenario.actions[*refused].gradients;
        const std::size_t other = (rank + 1) % gradients.size();
        gradients[other][static_cast<std::size_t>((run.chosen_place / 3) % run.size())] =
            unacceptable(static_cast<std::uint8_t>(run.chosen_place));
        expected = reference_implementation()->run(scenario);
        trial.classify(true, "too large, and a gradient that is refused");
    }
    same_history(trial, scenario, expected, trial.tolerant(scenario));
}

void needs_overflow(Case& run) {
    needs_no_clipping(run);
    run.payload = problem::Payload::bf16;
}

/// A payload is looked at in chunks of 4096 coordinates, and small cases have one.
Case in_a_later_chunk() {
    Case run;
    run.tensors = {{"a", 9'000, false}};
    run.workers = 2;
    run.payload = problem::Payload::bf16;
    run.data = problem::DataClass::normal;
    run.chosen_place = 8'100;
    return run;
}

std::string claims_no_bits(const Implementation& implementation) {
    if (implementation.name() == "reference")
        return "it would be compared with itself";
    if (implementation.level() != verify::LevelKind::exact)
        return "it claims no bits of the reference";
    return only_scape(implementation);
}

} // namespace

std::vector<Property> overflow_properties() {
    return {{11,
             "payload.overflow",
             "What would overflow in bf16 is refused on all ranks, after any gradient that is; what is "
             "nearly as large travels.",
             unclipped_case,
             overflow_is_refused,
             usual_demands({"nearly too large a payload", "too large a payload",
                            "too large in a later step", "too large, and a gradient that is refused"}),
             claims_no_bits,
             needs_overflow,
             {in_a_later_chunk()}}};
}

} // namespace truestep::properties::scape
