// Declares the settings of GASLoC's cases, with their ranges, checks and shrinking.
#include "case.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include <truestep/problem/memory_limits.hpp>
#include <truestep/problem/partition.hpp>

namespace truestep::properties::gasloc {

namespace {

using gate::from_to;
using gate::number;
using gate::one_of;
using gate::word;
using problem::BiasCorrection;
using problem::DataClass;
using Strings = std::vector<std::string>;

constexpr Index most_rounds = 1'000'000;

/// Mostly small; also 0, and one in ten beyond the blocks of kernels.
Index size_of(Index drawn) {
    return drawn <= 40 ? drawn : drawn == 41 ? 0 : 200 * (drawn - 41) + 13;
}

/// 0 in three of four cases.
rc::Gen<Index> rarely(Index last) {
    return rc::gen::map(from_to<Index>(0, 4 * last),
                        [last](Index drawn) { return drawn > last ? Index{0} : drawn; });
}

/// Adjusts settings that do not go together, so that every drawn case is valid.
Case fitting(Case run) {
    if (run.law == Law::hypercube)
        run.workers = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.workers)));
    run.skip = std::min(run.skip, run.rounds);
    run.restart = std::min(run.restart, run.rounds - 1);
    if (run.restart == 0)
        run.to = 0;
    if (run.law == Law::hypercube && run.to > 0)
        run.to = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.to)));
    return run;
}

std::vector<gate::Setting<Case>> settings() {
    const Strings laws{"pairs",     "two_peers", "ring", "exponential",
                       "hypercube", "complete",  "none", "explicit"};
    // These kinds depend on the workers that meet.
    using Kinds = std::vector<gate::Kind<Case>>;
    const Kinds meetings{"neighbours",
                         "several neighbours",
                         "one that meets nobody",
                         "odd number of ranks",
                         "several ranks",
                         "several rounds",
                         "momentum",
                         "a border",
                         "no border",
                         "just stable",
                         "just unstable"};
    Kinds of_workers = meetings;
    of_workers.insert(of_workers.end(), {"restart", "other number of ranks"});
    return {
        word("law", &Case::law, parse_law)
            .draws(one_of<Law>({Law::pairs, Law::ring, Law::two_peers, Law::complete, Law::given,
                                Law::exponential, Law::hypercube, Law::none}),
                   &Case::law)
            .asked("who meets whom", meetings)
            .in_rows(laws)
            .always(),
        word("inner", &Case::inner, parse_inner)
            .draws(one_of<Inner>({Inner::sgd, Inner::adamw, Inner::adams}), &Case::inner)
            .asked("sgd,adams,adamw", {"adaptive"}),
        word("momentum", &Case::momentum, parse_momentum)
            .draws(one_of<Momentum>({Momentum::local, Momentum::gossiped}), &Case::momentum)
            .asked("local,gossiped"),
        word("bias", &Case::bias, problem::parse<BiasCorrection>)
            .draws(one_of<BiasCorrection>(
                       {BiasCorrection::adam, BiasCorrection::none, BiasCorrection::momentum}),
                   &Case::bias),
        word("data", &Case::data, problem::parse_data_class)
            .draws(one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::normal,
                                      DataClass::ties, DataClass::sparse, DataClass::wide,
                                      DataClass::subnormal, DataClass::zeros, DataClass::limit}),
                   &Case::data),
        number("workers", &Case::workers, 1, problem::most_workers)
            .draws(from_to<Index>(1, 9), &Case::workers)
            .asked("numbers of ranks", of_workers)
            .in_rows({"1", "2", "3", "4", "5", "7", "8", "16", "33"})
            .always(),
        number("size", &Case::size, 0, 100'000'000)
            .draws(rc::gen::map(from_to<Index>(1, 45), size_of), &Case::size)
            .always(),
        number("rounds", &Case::rounds, 1, most_rounds).draws(from_to<Index>(1, 5), &Case::rounds).always(),
        number("steps", &Case::steps, 0, most_rounds)
            .draws(from_to<Index>(0, 4), &Case::steps)
            .asked("greatest numbers of inner steps in a round",
                   {"uneven", "no inner steps", "several inner steps", "skipped"})
            .named("inner-steps"),
        number("uneven", &Case::uneven, 0, 1).draws(from_to<Index>(0, 1), &Case::uneven),
        number("skip", &Case::skip, 0, most_rounds).draws(rarely(4), &Case::skip),
        number("overflow", &Case::overflow, 0, most_rounds),
        number("restart", &Case::restart, 0, most_rounds).draws(rarely(4), &Case::restart),
        number("to", &Case::to, 0, problem::most_workers).draws(from_to<Index>(0, 5), &Case::to),
        number("late", &Case::late, 0, 1'000'000).draws(rarely(9), &Case::late),
        number("threads", &Case::threads, 1, 64).draws(one_of<Index>({1, 1, 2, 3}), &Case::threads),
        number("seed", &Case::seed, 0, 1'000'000).draws(from_to<Index>(1, 9), &Case::seed),
        number("alpha", &Case::alpha).draws(one_of<double>({1.0, 0.5, 0.75, 0.3, 1.25, 0.0}), &Case::alpha),
        number("gamma", &Case::gamma).draws(one_of<double>({0.0, 0.5, 0.25, 0.7, 0.9}), &Case::gamma),
        number("eta", &Case::eta).draws(one_of<double>({1.0, 0.5, 0.7, 2.0}), &Case::eta),
        number("lr", &Case::lr).draws(one_of<double>({0.125, 0.1, 0.5, 0x1p-10}), &Case::lr),
        number("decay", &Case::decay).draws(one_of<double>({0.0, 0.0, 0.25, 0.1}), &Case::decay),
        number("beta1", &Case::beta1).draws(one_of<double>({0.5, 0.9, 0.0, 0.999}), &Case::beta1),
        number("beta2", &Case::beta2).draws(one_of<double>({0.75, 0.95, 0.0, 0.999}), &Case::beta2),
        number("epsilon", &Case::epsilon)
            .draws(one_of<double>({0x1p-20, 1e-8, 0x1p-149, 1.0}), &Case::epsilon)};
}

void check(const Case& run) {
    // Each worker holds theta, x, a gradient and a message.
    problem::check_memory(16.0 * static_cast<double>(run.size) * static_cast<double>(run.workers),
                          "such a case");
    check_law(run.law, static_cast<int>(run.workers));
    if (run.to > 0)
        check_law(run.law, static_cast<int>(run.to));
}

bool is_power_of_two(Index number) {
    return std::has_single_bit(static_cast<std::uint64_t>(number));
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    static const gate::CaseSpec<Case> all{
        .settings = settings(),
        .own_key = "law",
        .fits_drawn = [](Case& run) { run = fitting(run); },
        .fits = [](const Case& run, const auto&) { check(run); },
        .features = {{"restart",
                      [](Case& run) { run.restart = run.to = 0; },
                      {"restart", "other number of ranks"}},
                     {"restart.same", [](Case& run) { run.restart = run.to = 0; }},
                     {"restart.other", [](Case& run) { run.to = 0; }}},
        .columns = {"workers", "law"},
        .most_workers = [](const Case& run) { return static_cast<int>(std::max(run.workers, run.to)); },
        .fits_pins =
            [](Case& run, const Case&, const gate::Overrides& overrides) {
                if (overrides.contains("workers"))
                    run.to = 0;
                // A ring replaces a hypercube that the pinned numbers of workers do not allow.
                if (run.law == Law::hypercube &&
                    !(is_power_of_two(run.workers) && (run.to == 0 || is_power_of_two(run.to))))
                    run.law = Law::ring;
            }};
    return all;
}

Case exact(Case run) {
    run.inner = Inner::sgd;
    run.data = DataClass::dyadic;
    run.decay = 0.0;
    run.lr = 0.125;
    run.rounds = std::min<Index>(run.rounds, 3);
    run.steps = std::min<Index>(run.steps, 2);
    const auto dyadic = [](double value, double otherwise) {
        return value * 4.0 == static_cast<double>(static_cast<Index>(value * 4.0)) ? value : otherwise;
    };
    run.alpha = dyadic(run.alpha, 0.5);
    run.gamma = dyadic(run.gamma, 0.5);
    run.eta = dyadic(run.eta, 0.5);
    if (run.law == Law::complete) // lambda = 2/n
        run.workers = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.workers)));
    // The last bit of a drift is 2^-12 or above, and each round moves theirs down by lambda * (alpha / 2)
    // or by gamma (under full averaging by gamma alone). Beyond 2^-22 not all values fit into fp32.
    const auto bits = [](double value) {
        Index count = 0;
        for (; value != std::floor(value); value *= 2.0)
            ++count;
        return count;
    };
    const Index of_weights = run.law == Law::given      ? 2
                             : run.law == Law::complete ? bits(2.0 / static_cast<double>(run.workers))
                                                        : 0;
    const Index down = std::max({of_weights + bits(run.alpha / 2.0), bits(run.gamma), Index{1}});
    run.rounds = std::clamp<Index>(10 / down, 1, run.rounds);
    run.restart = 0;
    return fitting(run);
}

} // namespace truestep::properties::gasloc
