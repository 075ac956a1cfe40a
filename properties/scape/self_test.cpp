// Tests that the gate detects wrong answers: the reference's own with one thing changed, where a comparison
// that stops too early would not look: the last bit of the last element of the last rank after the last
// step.
#include "self_test.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include <truestep/properties/scape/implementations.hpp>
#include <truestep/properties/scape/property.hpp>

#include "support.hpp"

namespace truestep::properties::scape {

namespace {

class ChangedImplementation final : public Implementation {
  public:
    ChangedImplementation(verify::LevelKind level, std::function<void(RunRecording&)> change)
        : level_(level), change_(std::move(change)) {}

    std::string name() const override { return "tampered"; }
    std::string communicator() const override { return "-"; }
    verify::LevelKind level() const override { return level_; }
    bool takes(int workers) const override { return workers >= 1; }
    RunRecording run(const Scenario& scenario) const override {
        RunRecording history = reference_implementation()->run(scenario);
        change_(history);
        return history;
    }

  private:
    verify::LevelKind level_;
    std::function<void(RunRecording&)> change_;
};

struct Change {
    std::string what;
    std::function<void(RunRecording&)> make;
};

ObservedState& last_view(RunRecording& history) {
    return history.after.back().views.back();
}

void flip_last_bit(std::vector<float>& values) {
    values.back() = std::bit_cast<float>(std::bit_cast<std::uint32_t>(values.back()) ^ 1U);
}

/// A moment is +0 off the mask, and a residual on it.
void turn_a_zero(std::vector<float>& values) {
    *std::ranges::find(values, 0.0F) = -0.0F;
}

StepReport& told_of(RunRecording& history) {
    return *last_view(history).told;
}

std::vector<Change> changes(Index size) {
    // The mask's bits beyond the last coordinate must be 0, and are compared, too.
    const auto last_coordinate = static_cast<std::uint8_t>(1U << static_cast<unsigned>((size - 1) % 8));
    return {
        {"parameters", [](RunRecording& ran) { flip_last_bit(last_view(ran).parameters); }},
        {"moment", [](RunRecording& ran) { flip_last_bit(last_view(ran).moment); }},
        {"residual", [](RunRecording& ran) { flip_last_bit(last_view(ran).residual); }},
        {"the sign of a moment's zero", [](RunRecording& ran) { turn_a_zero(last_view(ran).moment); }},
        {"the sign of a residual's zero", [](RunRecording& ran) { turn_a_zero(last_view(ran).residual); }},
        {"mask", [=](RunRecording& ran) { last_view(ran).mask.back() ^= last_coordinate; }},
        {"mask beyond the model", [](RunRecording& ran) { last_view(ran).mask.back() ^= 0x80U; }},
        {"coming mask", [=](RunRecording& ran) { ran.coming.back().back() ^= last_coordinate; }},
        {"count of steps", [](RunRecording& ran) { ++last_view(ran).step; }},
        {"outcome",
         [](RunRecording& ran) { ran.after.back().outcomes.back().kind = Outcome::Kind::refused; }},
        {"an action that is missing", [](RunRecording& ran) { ran.after.pop_back(); }},
        {"step told", [](RunRecording& ran) { ++told_of(ran).step; }},
        {"selected told", [](RunRecording& ran) { ++told_of(ran).selected; }},
        {"kept told", [](RunRecording& ran) { ++told_of(ran).kept; }},
        {"norm told",
         [](RunRecording& ran) {
             double& norm = told_of(ran).gradient_norm;
             norm = std::bit_cast<double>(std::bit_cast<std::uint64_t>(norm) ^ 1U);
         }},
        {"clip factor told",
         [](RunRecording& ran) {
             float& factor = told_of(ran).clip_factor;
             factor = std::bit_cast<float>(std::bit_cast<std::uint32_t>(factor) ^ 1U);
         }},
        {"bytes told", [](RunRecording& ran) { ++told_of(ran).sent.back(); }},
    };
}

} // namespace

std::vector<std::string> what_the_gate_does_not_see() {
    using verify::LevelKind;
    Case run;
    run.tensors = {{"a", 14, false}, {"b", 7, false}};
    run.workers = 3;
    run.density = 0.3;
    run.beta1 = 0.9;
    run.clip_norm = 0.05;
    run.data = problem::DataClass::normal;
    run.steps = 3;
    const Property reference = reference_properties().front();
    std::vector<std::string> unseen;
    const auto sees = [&](LevelKind level, const std::function<void(RunRecording&)>& change) {
        const auto finding = judged(ChangedImplementation(level, change), reference, run).finding;
        return finding != nullptr && !finding->message().starts_with(gate::could_not_judge);
    };
    for (const LevelKind level : {LevelKind::exact, LevelKind::rel})
        if (const auto finding =
                judged(ChangedImplementation(level, [](RunRecording&) {}), reference, run).finding)
            unseen.push_back("that the reference is the reference: " + finding->message());
    for (const Change& change : changes(run.size()))
        if (!sees(LevelKind::exact, change.make))
            unseen.push_back(change.what);
    // Within a bound one bit does not matter, and a hundredth is too much.
    using Values = std::vector<float> ObservedState::*;
    for (const Values values :
         {&ObservedState::parameters, &ObservedState::moment, &ObservedState::residual})
        if (!sees(LevelKind::rel,
                  [values](RunRecording& ran) { (last_view(ran).*values).back() += 0.01F; }))
            unseen.emplace_back("a value beyond its bound");
    return unseen;
}

} // namespace truestep::properties::scape
