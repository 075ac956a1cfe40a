// The cases of GASLoC.
#pragma once

#include <truestep/gate/case_spec.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/gasloc/settings.hpp>

namespace truestep::properties::gasloc {

using namespace problem::gasloc;
using problem::gasloc::Settings; // not that of <truestep/optimizer.hpp>

/// A few numbers and words from which a whole run follows; written as one line of text.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Law law = Law::pairs;
    Inner inner = Inner::sgd;
    Momentum momentum = Momentum::local;
    problem::BiasCorrection bias = problem::BiasCorrection::adam;
    problem::DataClass data = problem::DataClass::dyadic;
    Index workers = 1;
    Index size = 1; ///< parameters; 0 is allowed
    Index rounds = 1;
    Index steps = 1;    ///< inner steps in a round
    Index uneven = 0;   ///< 1: up to `steps`, by worker and round; also none
    Index skip = 0;     ///< the round in which some worker has a gradient that is not finite; 0: none
    Index overflow = 0; ///< the round in which one coordinate of a worker overflows under sgd; 0: none
    Index restart = 0;  ///< the round after which it restarts; 0: never
    Index to = 0;       ///< the number of workers after the restart; 0: the same
    Index late = 0;     ///< how messages are disturbed; 0: not at all
    Index threads = 1;  ///< of each worker
    Index seed = 1;
    double alpha = 1.0;
    double gamma = 0.0;
    double eta = 1.0;
    double lr = 0.125;
    double decay = 0.0;
    double beta1 = 0.5;
    double beta2 = 0.75;
    double epsilon = 0x1p-20;
};

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several ranks", 60, [](const Case& run) { return run.workers > 1; }},
    {"odd number of ranks", 20, [](const Case& run) { return run.workers > 1 && run.workers % 2 == 1; }},
    {"more ranks than parameters", 0, [](const Case& run) { return run.workers > run.size; }},
    {"several rounds", 50, [](const Case& run) { return run.rounds > 1; }},
    {"neighbours", 40},
    {"several neighbours", 15},
    {"one that meets nobody", 5},
    {"no inner steps", 20},
    {"several inner steps", 30, [](const Case& run) { return run.steps > 1; }},
    {"uneven", 30, [](const Case& run) { return run.uneven != 0; }},
    {"skipped", 40},
    {"a whole round is undone", 25},
    {"momentum", 40, [](const Case& run) { return run.gamma > 0.0; }},
    {"restart", 90, [](const Case& run) { return run.restart > 0; }},
    {"other number of ranks", 90,
     [](const Case& run) { return run.restart > 0 && run.to > 0 && run.to != run.workers; }},
    {"late", 0, [](const Case& run) { return run.late > 0; }},
    {"threads", 0, [](const Case& run) { return run.threads > 1; }},
    {"adaptive", 40, [](const Case& run) { return run.inner != Inner::sgd; }},
    {"a border"},
    {"no border"},
    {"just stable", 40},
    {"just unstable", 40}};

/// The settings of a case, as "law=pairs,inner=sgd,...". Defaults are left out, except for law, workers,
/// size and rounds.
[[nodiscard]] const gate::CaseSpec<Case>& spec();
/// The nearest case in which everything is exact in fp32: sgd, dyadic data and settings, few rounds,
/// weights that are powers of two.
[[nodiscard]] Case exact(Case run);

} // namespace truestep::properties::gasloc
