// The settings of a problem, each declared once: its name, what it is and which numbers it may be.
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

#include <truestep/problem/error.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

/// The numbers that a setting may be, as messages say it. A NaN never is.
struct Limits {
    std::string_view text;
    bool (*hold)(double value);
};
inline constexpr Limits below_one{"in [0, 1)", [](double value) { return value >= 0.0 && value < 1.0; }};
inline constexpr Limits not_negative{"0 or more and finite",
                                     [](double value) { return value >= 0.0 && std::isfinite(value); }};
inline constexpr Limits positive{"more than 0, as an fp32 number too, and finite", [](double value) {
                                     return static_cast<float>(value) > 0.0F && std::isfinite(value);
                                 }};
inline constexpr Limits norm_limits{"0 (no clipping) or more and finite", not_negative.hold};

/// Throws truestep::Error unless the limits hold.
inline void check_limits(const std::string& what, double value, const Limits& limits) {
    if (!limits.hold(value))
        throw Error(what + " is " + shortest(value) + "; it must be " + std::string(limits.text));
}

/// Calls visit(name, member, what it is, limits) for each setting that files and digests leave out
/// where it equals that of unsaid(); a choice has no limits. Add a new setting here: from its row it
/// is checked, ranks agree on it, traces, checkpoints and digests hold it, and C and
/// `truestep record` take it.
template <class Visit>
constexpr void visit_later_settings(const Visit& visit) {
    visit("norm", &HyperParameters::norm, "order of that norm's sums: 1, or 2 of the second edition");
    visit("payload", &HyperParameters::payload,
          "what of c travels: fp32, bf16 or e5m2; bf16_both or e5m2_both: and what of M");
}

/// The same for each setting that files and digests always hold. What is said to be nothing is read
/// and not offered. The groups of ranks and of parameters are missing, because each file
/// writes them in its own way.
template <class Visit>
constexpr void visit_first_settings(const Visit& visit) {
    visit("beta1", &HyperParameters::beta1, "decay of the first moment, in [0, 1)", below_one);
    visit("beta2", &HyperParameters::beta2, "weight of the moment in the denominator, in [0, 1)",
          below_one);
    visit("epsilon", &HyperParameters::epsilon, "added to the denominator", positive);
    visit("weight_decay", &HyperParameters::weight_decay,
          "decoupled decay; of each parameter group with commas between, or one number for all",
          not_negative);
    visit("clip_norm", &HyperParameters::clip_norm, "largest norm of the gradient; 0: no clipping",
          norm_limits);
    visit("bias_correction", &HyperParameters::bias_correction, "none, adam or momentum");
    visit("decay_order", &HyperParameters::decay_order, "");
    visit("k_rounding", &HyperParameters::k_rounding, "floor, or ceil as an older artifact had it");
}

/// The same for both.
template <class Visit>
constexpr void visit_settings(const Visit& visit) {
    visit_first_settings(visit);
    visit_later_settings(visit);
}

/// Calls visit(name, value) for each setting of these.
template <class Settings, class Visit>
requires std::same_as<std::remove_const_t<Settings>, HyperParameters>
void visit_settings(Settings& settings, const Visit& visit) {
    visit_settings([&](const char* key, auto member, const auto&...) { visit(key, settings.*member); });
}

/// A setting as digests and messages write it.
template <class Value>
[[nodiscard]] std::string setting_text(Value value) {
    if constexpr (std::floating_point<Value>)
        return shortest(value);
    else
        return std::string(name(value));
}

/// The values of later settings that a file leaves out, perhaps because it is older than the
/// choice.
[[nodiscard]] inline HyperParameters unsaid(const HyperParameters& settings) {
    HyperParameters result;
    // Without clipping the norm does not matter.
    result.norm = settings.clip_norm > 0.0 ? NormVersion::ascending : settings.norm;
    return result;
}

/// Calls visit(name, value) for each later setting that a file has to state, because it differs
/// from unsaid().
template <class Visit>
void visit_said(const HyperParameters& settings, const Visit& visit) {
    visit_later_settings([&, usual = unsaid(settings)](const std::string& key, auto member, auto...) {
        if (settings.*member != usual.*member)
            visit(key, settings.*member);
    });
}

} // namespace truestep::problem
