// The order in which section 5 adds the norm's blocks shows only in the last digits of a double, which a
// factor in fp32 does not keep. So the case clips to a norm for which the two orders give factors on either
// side of a place halfway between two floats.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include <truestep/properties/scape/implementations.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "generators.hpp"
#include "support.hpp"
#include "vectors.hpp"

namespace truestep::properties::scape {

namespace {

using Sums = std::vector<double>;

constexpr Index norm_block = 4096;
constexpr Index most_less = 32; ///< coordinates that a case may lose

Sums block_sums(const reference::Vector<float>& x) {
    constexpr std::size_t lanes = 256;
    Sums sums;
    for (Index begin = 0; begin < x.size(); begin += norm_block) {
        std::array<double, lanes> lane{};
        for (Index i = begin; i < std::min(x.size(), begin + norm_block); ++i) {
            const auto value = static_cast<double>(x[i]);
            lane[static_cast<std::size_t>(i - begin) % lanes] += value * value;
        }
        for (std::size_t half = lanes / 2; half > 0; half /= 2)
            for (std::size_t j = 0; j < half; ++j)
                lane[j] += lane[j + half];
        sums.push_back(lane[0]);
    }
    return sums;
}

double one_after_another(const Sums& sums) {
    double total = 0.0;
    for (const double sum : sums)
        total += sum;
    return total;
}

/// The sum in the order of version 2; with `early`, an odd last block is added to the pair before it.
double as_a_tree(Sums sums, bool early) {
    while (sums.size() > 1) {
        Sums next;
        for (std::size_t i = 0; i + 1 < sums.size(); i += 2)
            next.push_back(sums[i] + sums[i + 1]);
        if (sums.size() % 2 == 1 && early)
            next.back() += sums.back();
        else if (sums.size() % 2 == 1)
            next.push_back(sums.back());
        sums = next;
    }
    return sums.front();
}

/// The norm by the case's version, and one by a wrong order.
std::pair<double, double> two_norms(const Case& run, const Sums& sums) {
    const double tree = as_a_tree(sums, false);
    const double ascending = one_after_another(sums);
    const bool second = run.norm == problem::NormVersion::tree;
    const double other = run.chosen_place % 2 == 1 ? as_a_tree(sums, true) : second ? ascending : tree;
    return {std::sqrt(second ? tree : ascending), std::sqrt(other)};
}

/// A clip_norm with different factors for the two norms; none if they are equal.
std::optional<double> clip_norm_between(double right, double wrong) {
    const auto factor = [](double clip_norm, double norm) {
        return static_cast<float>(clip_norm / (norm + 1e-6));
    };
    constexpr double halfway = 0.75 + 0x1p-25;
    constexpr int near = 8;
    double clip_norm = halfway * (right + 1e-6);
    for (int back = 0; back < near; ++back)
        clip_norm = std::nextafter(clip_norm, 0.0);
    for (int tried = 0; tried < 2 * near; ++tried, clip_norm = std::nextafter(clip_norm, 2.0 * clip_norm))
        if (factor(clip_norm, right) != factor(clip_norm, wrong))
            return clip_norm;
    return std::nullopt;
}

/// The case with such a clip_norm, and with a few coordinates less if that makes the norms differ. Leaving
/// out the last ones does not change the others' ghat.
std::optional<Case> telling(Case run) {
    reference::PerRank<float> gradients;
    for (const auto& of_rank : gradients_of(run, 1))
        gradients.push_back(to_vector(of_rank));
    reference::scape::Scape<float> scape(problem_of(run), schedule_of(run), to_vector(parameters_of(run)));
    const reference::Vector<float> ghat = scape.step(gradients, learning_rate_of(run, 1)).ghat;
    for (Index less = 0; less < most_less; ++less) {
        const Sums sums = block_sums(ghat.head(ghat.size() - less));
        const auto [right, wrong] = two_norms(run, sums);
        if (const auto clip_norm = clip_norm_between(right, wrong)) {
            run.clip_norm = *clip_norm;
            run.tensors.front().size -= less;
            return run;
        }
    }
    return std::nullopt;
}

/// Whether one factor makes the second vector of the first, as another norm does. Of another mean none
/// does.
bool scaled(const std::vector<float>& should, const std::vector<float>& is) {
    const auto most = std::ranges::max_element(should, {}, [](float value) { return std::abs(value); });
    const float factor = is[static_cast<std::size_t>(most - should.begin())] / *most;
    return std::ranges::equal(should, is, [&](float before, float after) {
        return std::abs(before * factor - after) <= 1e-5F * std::abs(after);
    });
}

void blocks_are_added_in_order(Trial& trial) {
    const Case& run = trial.run();
    trial.classify(run.size() > 4 * norm_block, "a norm of five blocks and more");
    trial.classify(run.norm == problem::NormVersion::ascending, "version 1 of the norm");
    const auto told_apart = telling(run);
    trial.classify(told_apart.has_value(), "the order of the norm's blocks shows");
    const Scenario scenario = trial.steps(told_apart.value_or(run), 1);
    const RunRecording expected = reference_implementation()->run(scenario);
    const RunRecording& actual = trial(scenario);
    for (std::size_t rank = 0; rank < actual.after.front().views.size(); ++rank) {
        const ObservedState& should = expected.after.front().views[rank];
        const ObservedState& is = actual.after.front().views[rank];
        trial.same_bits(scaled(should.moment, is.moment) ? verify::scape::Phase::clip
                                                         : verify::scape::Phase::exchange,
                        "first_moment", 1, static_cast<int>(rank), should.moment, is.moment);
    }
}

/// Makes a case of five to seven blocks, with all coordinates, in one step.
void needs_blocks(Case& run) {
    constexpr Index at_least = 4 * norm_block + most_less;
    run.tensors = {{"a", at_least + run.chosen_place % (2 * norm_block), false}, {"b", 7, true}};
    run.workers = (run.workers - 1) % 3 + 1;
    run.other_workers = 1;
    run.density = 1.0;
    run.schedule = DensityRule::geometric;
    run.start = 1.0;
    run.warm_up = 0;
    run.steps = 1;
    run.parts = 1;
    run.bucket_bytes = 0;
    run.data = problem::DataClass::normal;
    run.silent = nobody;
    run.clip_norm = 1.0;
}

std::string exact_scape(const Implementation& implementation) {
    return implementation.level() == verify::LevelKind::exact ? only_scape(implementation)
                                                              : "it claims no order of its sums";
}

} // namespace

std::vector<Property> norm_properties() {
    return {{4,
             "update.norm",
             "The norm's blocks are added in the order of its version: where that decides a bit, it is "
             "right.",
             any_case,
             blocks_are_added_in_order,
             {"a norm of five blocks and more", "version 1 of the norm",
              "the order of the norm's blocks shows"},
             exact_scape,
             needs_blocks}};
}

} // namespace truestep::properties::scape
