// The settings of a problem by their names, for whoever compares, writes or reads all of them.
#pragma once

#include <concepts>
#include <string>

#include <truestep/problem/problem.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

/// Calls visit(name, member) for each setting that files and digests leave out where it is as in unsaid().
/// A new setting is added here: ranks then agree on it, and traces, checkpoints and digests have it.
template <class Visit>
void visit_later_settings(const Visit& visit) {
    visit("norm", &HyperParameters::norm);
    visit("payload", &HyperParameters::payload);
}

/// Calls visit(name, member) for each setting that they always have. The groups of ranks and of parameters
/// are not among them, because each file writes them in its own way.
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

/// Digests and messages write a setting so.
template <class Value>
[[nodiscard]] std::string setting_text(Value value) {
    if constexpr (std::floating_point<Value>)
        return shortest(value);
    else
        return std::string(name(value));
}

/// A file that leaves out the later settings means these: it may be from before there was a choice.
[[nodiscard]] inline HyperParameters unsaid(const HyperParameters& settings) {
    HyperParameters result;
    // The norm is of no matter where nothing is clipped.
    result.norm = settings.clip_norm > 0.0 ? NormVersion::ascending : settings.norm;
    return result;
}

/// Calls visit(name, value) for each later setting that differs from what a file means that leaves it out.
template <class Visit>
void visit_said(const HyperParameters& settings, const Visit& visit) {
    visit_later_settings([&, usual = unsaid(settings)](const std::string& key, auto member) {
        if (settings.*member != usual.*member)
            visit(key, settings.*member);
    });
}

} // namespace truestep::problem
