// Predicts each scheme's step time from its bytes, messages and passes, and fits the constants.
#include "model/model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include <truestep/problem/error.hpp>

#include "model/meetings.hpp"

namespace truestep::model {
namespace {

constexpr std::array<Scheme, 18> all_schemes{{
    {"dense", false, false, "AdamS, sharded, fp32 both ways"},
    {"dense-bf16", false, false, "AdamS, sharded, bf16 gradients, fp32 parameters"},
    {"dense-bf16-all", false, false, "AdamS, sharded, bf16 both ways"},
    {"adamw", false, false, "AdamW, sharded, fp32 both ways"},
    {"topk-indices", true, false, "own top k with indices, gathered by all"},
    {"ok-topk", true, false, "balanced sparse all-reduce"},
    {"unsharded", true, false, "SCAPE, authors' non-sharded form, bitmap masks"},
    {"scape", true, false, "SCAPE: the smaller of bitmap and positions"},
    {"scape-using-up", true, false, "the same, of a gradient that it may write into"},
    {"scape-bf16", true, false, "SCAPE with payloads of bf16"},
    {"scape-e5m2", true, false, "SCAPE with payloads of e5m2"},
    {"scape-bf16-both", true, false, "the first with means of bf16, too"},
    {"scape-e5m2-both", true, false, "the second with means of e5m2, too"},
    {"scape-bitmap", true, false, "SCAPE with bitmap masks"},
    {"scape-entropy", true, false, "SCAPE with masks at their entropy"},
    {"scape-hierarchy", true, false, "SCAPE with ranks in groups, sqrt(P) in each"},
    {"diloco", false, true, "local AdamS; the mean of all every H steps, sharded, fp32"},
    {"gasloc", false, true, "GASLoC: local AdamS; neighbours every H steps, fp32"},
}};

/// Cache lines of 16 parameters with a selected one, if these are spread at random.
double lines(double size, double density) {
    return size / 16 * (1 - std::pow(1 - density, 16));
}

/// Bytes per parameter of positions in blocks of 255.
double positions(double density) {
    return density + 1.0 / 255;
}

/// A x = b by elimination; b is the last column.
template <std::size_t n>
std::array<double, n> solve(std::array<std::array<double, n + 1>, n> rows) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto pivot =
            std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(i), rows.end(),
                             [&](const auto& a, const auto& b) { return std::abs(a[i]) < std::abs(b[i]); });
        std::swap(rows[i], *pivot);
        if (rows[i][i] == 0)
            throw Error("the measured steps do not tell the machine's constants apart; give more of them");
        for (std::size_t other = 0; other < n; ++other)
            if (other != i)
                for (std::size_t j = n + 1; j-- > i;)
                    rows[other][j] -= rows[other][i] / rows[i][i] * rows[i][j];
    }
    std::array<double, n> result{};
    for (std::size_t i = 0; i < n; ++i)
        result[i] = rows[i][n] / rows[i][i];
    return result;
}

} // namespace

std::span<const Scheme> schemes() {
    return all_schemes;
}

double mask_entropy(double density) {
    if (density <= 0 || density >= 1)
        return 0;
    return -(density * std::log2(density) + (1 - density) * std::log2(1 - density)) / 8;
}

Work work_of(std::string_view scheme, const Setting& setting) {
    const double d = setting.size;
    const double P = setting.ranks;
    const double rho = setting.density;
    const double others = P - 1;
    const double f = others / P;
    const double k = rho * d;
    Work work;
    const auto dense = [&](double gradient, double parameter, double passes, double agreement = 0,
                           double exchanges = 2) {
        work.values = f * d * (gradient + parameter) + agreement * others;
        work.exchanges = exchanges;
        work.messages = work.exchanges * others;
        work.passes = passes * d;
        return work;
    };
    if (scheme == "dense")
        return dense(4, 4, 16 + 6 / P, 16, 3);
    if (scheme == "dense-bf16")
        return dense(2, 4, 15 + 15 / P);
    if (scheme == "dense-bf16-all")
        return dense(2, 2, 24 + 18 / P);
    if (scheme == "adamw")
        return dense(4, 4, 16 + 10 / P, 17, 4);
    if (scheme == "topk-indices") {
        // The coordinates of all ranks if they agree in nothing; they are added rank by rank, then
        // taken.
        const double came = 1 - std::pow(1 - rho, P);
        work.values = 8 * k * others;
        work.exchanges = 1;
        work.messages = others;
        work.passes = 54 * d;
        work.lines = others * lines(d, rho) + 3 * (lines(d, came) - lines(d, rho));
        return work;
    }
    if (scheme == "ok-topk") {
        work.values = 16 * k * f + 8 * others;
        work.exchanges = 4;
        work.messages = 4 * others;
        work.passes = 38 * d;
        work.lines = 4 * lines(d, rho) * f;
        return work;
    }
    if (scheme == "diloco" || scheme == "gasloc") {
        // The inner step, and an H-th of a round's end: gasloc's drift (12) and its gossip with the
        // momentum (12, and 4 a neighbour); diloco's sum of all at the owner, and its outer step.
        const double H = setting.inner_steps;
        const bool gossip = scheme == "gasloc";
        const double met = gossip ? 2 * meetings(setting.law, P) / P : 0;
        work.values = (gossip ? 4 * d * met : 8 * f * d) / H;
        work.exchanges = (gossip ? std::min(met, 1.0) : 2) / H;
        work.messages = (gossip ? met : 2 * others) / H;
        work.passes = (20 + (gossip ? 24 + 4 * met : 4 + 24 / P) / H) * d;
        return work;
    }
    const bool unsharded = scheme == "unsharded";
    if (unsharded || scheme.starts_with("scape")) {
        const bool both = scheme == "scape-bf16-both" || scheme == "scape-e5m2-both";
        const bool bf16 = scheme == "scape-bf16" || scheme == "scape-bf16-both";
        const bool e5m2 = scheme == "scape-e5m2" || scheme == "scape-e5m2-both";
        double mask = std::min(0.125, positions(rho));
        if (scheme == "unsharded" || scheme == "scape-bitmap")
            mask = 0.125;
        else if (scheme == "scape-entropy")
            mask = mask_entropy(rho);
        else if (scheme != "scape" && scheme != "scape-using-up" && !bf16 && !e5m2 &&
                 scheme != "scape-hierarchy")
            throw Error("scheme '" + std::string(scheme) + "' is unknown; see docs/cost-model.md");
        work.values = 8 * k * f + (unsharded ? 0 : 16 * others);
        work.mask = mask * d * f;
        work.exchanges = unsharded ? 2 : 3;
        work.messages = work.exchanges * others;
        work.mask_messages = others;
        work.mask_exchanges = 1;
        work.passes = ((unsharded ? 36 : 24.5) + 4 / P + 40 * rho) * d;
        work.lines = 4 * lines(d, rho);
        if (scheme == "scape-using-up")
            work.passes -= 4 * d; // the local pass does the check
        if (bf16) {
            // M comes back in fp32. Rounding reads and writes c, and writes the payload and e's
            // lines. The overflow check reads lines of g and e, and m. Half as much is received.
            work.values = 6 * k * f + 16 * others;
            work.passes += 10 * k;
            work.lines += 3 * lines(d, rho);
        }
        if (e5m2) {
            // The greatest exponent needs one more read of c; nothing is searched before the step.
            work.values = 5 * k * f + 16 * others;
            work.passes += 13 * k;
            work.lines += lines(d, rho);
        }
        if (both) {
            // M comes back rounded as the payload is. The owner reads its means and writes them
            // rounded, all ranks read them and write fp32, and the owner's losses go into its lines
            // of e.
            const double bytes = bf16 ? 2 : 1;
            work.values = 2 * bytes * k * f + 16 * others;
            work.passes += (4 + bytes) * (k + k / P);
            work.lines += lines(d / P, rho);
        }
        if (scheme == "scape-hierarchy" && P > 1) {
            // Section 32, counting owners' own parts as sent: the second level sends what the first
            // has left.
            const double group = setting.group > 0 ? setting.group : std::sqrt(P);
            const double ways = group - 1 + P / group;
            work.values = 8 * k + 16 * P;
            work.mask = mask * d;
            work.messages = work.exchanges * ways;
            work.exchanges *= 2;
            work.mask_messages = ways;
            work.mask_exchanges = 2;
        }
        return work;
    }
    throw Error("scheme '" + std::string(scheme) + "' is unknown; see docs/cost-model.md");
}

Seconds seconds_of(const Work& work, const Setting& setting, const Machine& machine) {
    const double per_byte = 1 / machine.bandwidth + machine.transport;
    Seconds seconds;
    seconds.values = work.values * per_byte;
    seconds.messages = work.exchanges * machine.latency + work.messages * machine.overhead;
    if (work.mask > 0)
        seconds.mask = work.mask * per_byte + work.mask_exchanges * machine.latency +
                       work.mask_messages * machine.overhead;
    seconds.local = work.passes / machine.memory + work.lines * machine.irregular;
    seconds.step = setting.compute + seconds.values + seconds.messages + seconds.local +
                   std::max(0.0, seconds.mask - setting.compute);
    return seconds;
}

Seconds seconds_of(std::string_view scheme, const Setting& setting, const Machine& machine) {
    return seconds_of(work_of(scheme, setting), setting, machine);
}

double speed_up(std::string_view scheme, const Setting& setting, const Machine& machine) {
    return seconds_of("dense", setting, machine).step / seconds_of(scheme, setting, machine).step;
}

double bandwidth_for(double ratio, std::string_view scheme, std::string_view other, const Setting& setting,
                     Machine machine) {
    const auto reached = [&](double bandwidth) {
        machine.bandwidth = bandwidth;
        return seconds_of(other, setting, machine).step >=
               ratio * seconds_of(scheme, setting, machine).step;
    };
    // The slower the link, the greater the ratio, up to the ratio of bytes.
    double slow = 1e3;
    double fast = 1e15;
    if (!reached(slow) || reached(fast))
        return 0;
    while (fast / slow > 1 + 1e-9) {
        const double middle = std::sqrt(slow * fast);
        (reached(middle) ? slow : fast) = middle;
    }
    return slow;
}

double predicted(const Measured& row, Machine machine) {
    machine.bandwidth = row.bandwidth;
    machine.latency += row.delay;
    return seconds_of(row.scheme, row.setting, machine).step;
}

Machine fit(std::span<const Measured> measured, const Machine& start) {
    // Without compute, a step is linear in four constants: latency, transport, 1/memory and
    // irregular. We fit them by least squares of relative errors (normal equations), and set
    // negative ones to 0.
    constexpr std::size_t count = 4;
    std::array<bool, count> used{true, true, true, true};
    std::array<double, count> found{};
    while (true) {
        std::array<std::array<double, count + 1>, count> equations{};
        for (const Measured& row : measured) {
            const Work work = work_of(row.scheme, row.setting);
            const double bytes = work.values + work.mask;
            const double exchanges = work.exchanges + work.mask_exchanges;
            const double known = bytes / row.bandwidth + exchanges * row.delay +
                                 (work.messages + work.mask_messages) * start.overhead;
            const std::array<double, count + 1> terms{exchanges, bytes, work.passes, work.lines,
                                                      row.seconds - known};
            for (std::size_t i = 0; i < count; ++i)
                for (std::size_t j = 0; j <= count; ++j)
                    equations[i][j] += terms[i] * terms[j] / (row.seconds * row.seconds);
        }
        for (std::size_t i = 0; i < count; ++i)
            for (std::size_t j = 0; j <= count; ++j)
                if (!used[i] || (j < count && !used[j]))
                    equations[i][j] = i == j ? 1 : 0;
        found = solve(equations);
        const auto least = std::min_element(found.begin(), found.end());
        if (*least >= 0)
            break;
        used[static_cast<std::size_t>(least - found.begin())] = false;
    }
    Machine machine = start;
    machine.latency = found[0];
    machine.transport = found[1];
    machine.memory = found[2] > 0 ? 1 / found[2] : std::numeric_limits<double>::infinity();
    machine.irregular = found[3];
    return machine;
}

} // namespace truestep::model
