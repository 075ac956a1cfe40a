// The settings of a problem by their names, for whoever compares, writes or reads all of them.
#pragma once

#include <concepts>
#include <string>

#include <truestep/problem/problem.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

/// visit(name, member) for each setting that files and digests leave out where it is as in unsaid(). A new
/// setting stands here: ranks then agree on it, and traces, checkpoints and digests have it.
template <class Settings, class Visit>
void visit_later_settings(Settings& settings, const Visit& visit) {
    visit("norm", settings.norm);
    visit("payload", settings.payload);
}

/// And for each that they always have, but for the groups of ranks and of parameters.
template <class Settings, class Visit>
void visit_first_settings(Settings& settings, const Visit& visit) {
    visit("beta1", settings.beta1);
    visit("beta2", settings.beta2);
    visit("epsilon", settings.epsilon);
    visit("weight_decay", settings.weight_decay);
    visit("clip_norm", settings.clip_norm);
    visit("bias_correction", settings.bias_correction);
    visit("decay_order", settings.decay_order);
    visit("k_rounding", settings.k_rounding);
}

/// As it stands in digests and messages.
template <class Value>
[[nodiscard]] std::string setting_text(Value value) {
    if constexpr (std::floating_point<Value>)
        return shortest(value);
    else
        return std::string(name(value));
}

/// What a file means that leaves out the later settings: it may be from before there was a choice.
[[nodiscard]] inline HyperParameters unsaid(const HyperParameters& settings) {
    HyperParameters result;
    // The norm is of no matter where nothing is clipped.
    result.norm = settings.clip_norm > 0.0 ? NormVersion::ascending : settings.norm;
    return result;
}

/// visit(name, value) for each later setting that says something.
template <class Visit>
void visit_said(const HyperParameters& settings, const Visit& visit) {
    const HyperParameters usual = unsaid(settings);
    visit_later_settings(settings, [&](const std::string& key, const auto& value) {
        visit_later_settings(usual, [&](const std::string& other, const auto& usual_value) {
            if constexpr (std::equality_comparable_with<decltype(value), decltype(usual_value)>)
                if (key == other && value != usual_value)
                    visit(key, value);
        });
    });
}

} // namespace truestep::problem
