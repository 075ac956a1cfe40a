// Hashes a problem's model, settings and partition into one number, so that ranks can compare.
#include <truestep/problem/digest.hpp>

#include <string>

#include <truestep/problem/groups.hpp>
#include <truestep/problem/settings.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::problem {

namespace {

std::string partition_text(const Problem& problem, const std::vector<Range>& ranges) {
    std::string text = " workers " + std::to_string(problem.workers);
    if (!problem.settings.groups.empty())
        text += " groups " + groups_text(problem.settings.groups);
    for (const Segment& segment : problem.segments)
        text += " segment " + std::to_string(segment.begin) + " " + std::to_string(segment.end) + " " +
                std::to_string(segment.owner);
    for (const Range& range : ranges)
        text += " range " + std::to_string(range.begin) + " " + std::to_string(range.end);
    return text;
}

/// FNV-1a, and a finalizer that spreads every bit.
std::uint64_t hash(const std::string& text) {
    std::uint64_t value = 0xcbf2'9ce4'8422'2325U;
    for (const char letter : text)
        value = (value ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3U;
    value = (value ^ (value >> 33U)) * 0xff51'afd7'ed55'8ccdU;
    return value ^ (value >> 33U);
}

} // namespace

std::string model_text(const Problem& problem, const DensitySchedule& density) {
    const HyperParameters& settings = problem.settings;
    std::string text(name(problem.algorithm));
    for (const Tensor& tensor : problem.layout.tensors())
        // The length keeps a name from running into what follows.
        text += " tensor " + std::to_string(tensor.name.size()) + ":" + tensor.name + " " +
                std::to_string(tensor.size) + (tensor.always_dense ? " dense" : "") +
                (tensor.param_group > 0 ? " group " + std::to_string(tensor.param_group) : "");
    visit_first_settings(
        [&](const char*, auto member, const auto&...) { text += " " + setting_text(settings.*member); });
    visit_said(settings, [&](const std::string& key, const auto& value) {
        text += " " + key + " " + setting_text(value);
    });
    for (const double decay : settings.more_weight_decays)
        text += " decay " + shortest(decay);
    return text + " density " + density.text();
}

std::uint64_t digest(const Problem& problem, const std::vector<Range>& ranges,
                     const DensitySchedule& density) {
    return hash(model_text(problem, density) + partition_text(problem, ranges));
}

std::uint64_t model_digest(const Problem& problem, const DensitySchedule& density) {
    return hash(model_text(problem, density));
}

} // namespace truestep::problem
