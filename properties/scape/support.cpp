#include "support.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>

#include <truestep/problem/error.hpp>

namespace truestep::properties::scape {

const ObservedState& before(const RecordedRun& ran, std::size_t action, int rank) {
    return action == 0 ? ran.start : ran.history.after[action - 1].views[static_cast<std::size_t>(rank)];
}

bool selected(const std::vector<std::uint8_t>& mask, Index index) {
    return ((mask[static_cast<std::size_t>(index / 8)] >> static_cast<unsigned>(index % 8)) & 1U) != 0;
}

float local(const Case& run, float moment, float gradient, float residual) {
    const auto b1 = static_cast<float>(run.beta1);
    const auto a1 = static_cast<float>(1.0 - run.beta1);
    return ((b1 * moment) + (a1 * gradient)) + residual;
}

float local_of(const Case& run, const RecordedRun& ran, std::size_t step, int rank, Index index) {
    const auto at = static_cast<std::size_t>(index);
    const ObservedState& was = before(ran, step, rank);
    return local(run, was.moment[at],
                 ran.scenario.actions[step].gradients[static_cast<std::size_t>(rank)][at],
                 was.residual[at]);
}

/// E with 2^E <= |c| < 2^(E+1), from the bits; subnormals and zeros have none.
static int exponent_of(float c) {
    return static_cast<int>((bits_of(c) >> 23U) & 0xffU) - 127;
}

int greatest_exponent(const Case& run, const RecordedRun& ran, std::size_t step) {
    int greatest = no_exponent;
    for (Index index = 0; index < run.size(); ++index)
        if (selected(ran.history.after[step].views.front().mask, index))
            for (int rank = 0; rank < run.workers; ++rank)
                greatest = std::max(greatest, exponent_of(local_of(run, ran, step, rank, index)));
    return greatest;
}

int scale_of(const Case& run, const RecordedRun& ran, std::size_t step) {
    // The last earlier step with a nonzero exponent; the first step uses its own.
    for (std::size_t before = std::max<std::size_t>(step, 1); before-- > 0;)
        if (const int E = greatest_exponent(run, ran, before); E != no_exponent)
            return E;
    return no_exponent + 1;
}

std::uint32_t bits_of(float value) {
    return std::bit_cast<std::uint32_t>(value);
}

Demands usual_demands(const Demands& more) {
    Demands all{"several ranks", "no power of two", "density below 1", "something off the mask",
                "several steps"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
}

float unacceptable(std::uint8_t what) {
    using Limits = std::numeric_limits<float>;
    const std::array<float, 7> values{Limits::quiet_NaN(),
                                      Limits::infinity(),
                                      -Limits::quiet_NaN(),
                                      -Limits::infinity(),
                                      Limits::max(),
                                      std::nextafter(0x1p56F, Limits::infinity()),
                                      -std::nextafter(0x1p56F, Limits::infinity())};
    return values[what % values.size()];
}

distributed::Disturbance disturbance(std::uint8_t what) {
    using distributed::Traffic;
    distributed::Disturbance result;
    const auto of = [](auto& by_traffic, Traffic traffic) -> auto& {
        return by_traffic[static_cast<std::size_t>(traffic)];
    };
    switch (what % 6) {
    case 0:
        of(result.late_start, Traffic::mask) = 6;
        break;
    case 1:
        result.hold_back.fill(true);
        break;
    case 2:
        result.newest_first = true;
        break;
    case 3:
        of(result.late_start, Traffic::mask) = 1000; // until it is waited for
        result.newest_first = true;
        break;
    case 4:
        of(result.late_start, Traffic::payload) = 2;
        of(result.late_start, Traffic::moment) = 1;
        of(result.hold_back, Traffic::mask) = true;
        break;
    default:
        of(result.delay, Traffic::mask) = std::chrono::milliseconds(1);
        of(result.hold_back, Traffic::moment) = true;
        break;
    }
    return result;
}

std::string cannot_differ(const Implementation& implementation) {
    if (!implementation.compares_starts() && !implementation.unsupported().contains("starts"))
        return "it does not say that its ranks compare what each was given";
    return implementation.communicator() == "mpi" ? "its ranks are processes, which a failure ends" : "";
}

std::string only_scape(const Implementation& implementation) {
    return implementation.algorithm() == problem::Algorithm::scape ? ""
                                                                   : "AdamS has no masks and no residuals";
}

const std::vector<Property>& all_properties() {
    static const std::vector<Property> all = [] {
        std::vector<Property> result;
        for (const auto& family :
             {conservation_properties(), payload_properties(), overflow_properties(), mask_properties(),
              delay_properties(), dense_properties(), symmetry_properties(), traffic_properties(),
              update_properties(), norm_properties(), refusal_properties(), start_properties(),
              restart_properties(), damage_properties(), parts_properties(), fault_properties(),
              reference_properties(), machine_properties()})
            result.insert(result.end(), family.begin(), family.end());
        return result;
    }();
    return all;
}

} // namespace truestep::properties::scape
