// The settings of a problem by their names, for code that compares, writes or reads all of them.
#pragma once

#include <concepts>
#include <string>

#include <truestep/problem/problem.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

/// Calls visit(name, member) for each setting that files and digests leave out where it equals that
/// of unsaid(). Add a new setting here: ranks then agree on it, and traces, checkpoints and digests
/// hold it.
template <class Visit>
void visit_later_settings(const Visit& visit) {
    visit("norm", &HyperParameters::norm);
    visit("payload", &HyperParameters::payload);
}

/// Calls visit(name, member) for each setting that files and digests always hold. The groups of
/// ranks and of parameters are missing, because each file writes them in its own way.
template <class Visit>
void visit_first_settings(const Visit& visit) {
    visit("beta1", &HyperParameters::beta1);
    visit("beta2", &HyperParameters::beta2);
    visit("epsilon", &HyperParameters::epsilon);
    visit("weight_decay", &HyperParameters::weight_decay);
    visit("clip_norm", &HyperParameters::clip_norm);
    visit("bias_correction", &HyperParameters::bias_correction);
    visit("decay_order", &HyperParameters::decay_order);
    visit("k_rounding", &HyperParameters::k_rounding);
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
    visit_later_settings([&, usual = unsaid(settings)](const std::string& key, auto member) {
        if (settings.*member != usual.*member)
            visit(key, settings.*member);
    });
}

} // namespace truestep::problem
