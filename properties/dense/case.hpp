// The cases of dense training, and the problems and gradients that follow from one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <truestep/gate/case_spec.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/dense/settings.hpp>

namespace truestep::properties::dense {

using namespace problem::dense;
using problem::DataClass;
using problem::Index;
using problem::dense::Problem; // not that of SCAPE
using problem::dense::Tensor;
using Floats = std::vector<float>;

/// How the roles are dealt to groups.
enum class Dealing : std::uint8_t {
    one,   ///< all to one rule; with Muon only the matrices, and AdamW takes the others
    two,   ///< vectors and embeddings have a group with other settings
    mixed, ///< embeddings have SGD, too
};

/// A few words and numbers from which everything follows, so that any rank can make its own part.
struct Case {
    static const gate::ListedKind<Case> kinds[];

    Rule rule = Rule::adamw;
    std::vector<Tensor> tensors{{"a", {1, 1}, "matrix"}};
    Index workers = 1;
    Index steps = 1;
    Index seed = 1;
    DataClass data = DataClass::dyadic;
    Index micro = 1;  ///< micro-batches of a rank
    Index uneven = 0; ///< more than 0: the last rank has fewer, in a tree by so many, but at least one
    Order order = Order::rank;
    Accumulation accumulation = Accumulation::mean;
    double clip = 0.0;
    Copies copies = Copies::none;
    Dealing groups = Dealing::one;
    double lr = 0.5;
    double decay = 0.0;
    double momentum = 0.5;
    double dampening = 0.0;
    Index nesterov = 0;
    double beta1 = 0.5;
    double beta2 = 0.75;
    double epsilon = 0.125;
    EpsilonPlace epsilon_place = EpsilonPlace::corrected;
    Orthogonalization orthogonalization = Orthogonalization::newton_schulz;
    Index iterations = 5;
    Iteration iteration = Iteration::fp32;
    Scale scale = Scale::original;
    Index sharded = 1;
    Index refused = 0;   ///< the step in which a gradient is not finite; 0: none
    Index restart = 0;   ///< after this step; 0: none
    Index to = 0;        ///< ranks after the restart; 0: as many
    Index resharded = 0; ///< 1: `sharded` is the other after it
    Index late = 0;      ///< disturbs messages; 0: not
    Index threads = 1;   ///< of a rank
};

inline constexpr gate::ListedKind<Case> Case::kinds[] = {
    {"several ranks", 60, [](const Case& run) { return run.workers > 1; }},
    {"no power of two", 0, [](const Case& run) { return (run.workers & (run.workers - 1)) != 0; }},
    {"more ranks than parameters"},
    {"several steps", 50, [](const Case& run) { return run.steps > 1; }},
    {"micro-batches", 50, [](const Case& run) { return run.micro > 1; }},
    {"a micro-batch is missing", 20},
    {"tree", 30, [](const Case& run) { return run.order == Order::tree; }},
    {"clipped", 25, [](const Case& run) { return run.clip > 0.0; }},
    {"above the norm", 50},
    {"copies", 25, [](const Case& run) { return run.copies == Copies::bf16; }},
    {"several groups", 90},
    {"several tensors", 50, [](const Case& run) { return run.tensors.size() > 1; }},
    {"muon", 20},
    {"not only Muon"},
    {"momentum", 50},
    {"sharded", 90, [](const Case& run) { return run.sharded == 1 && run.workers > 1; }},
    {"restart", 95, [](const Case& run) { return run.restart > 0; }},
    {"other number of ranks", 90,
     [](const Case& run) { return run.restart > 0 && run.to > 0 && run.to != run.workers; }},
    {"sharded otherwise", 0, [](const Case& run) { return run.restart > 0 && run.resharded > 0; }},
    {"refused", 20, [](const Case& run) { return run.refused > 0; }},
    {"late", 80, [](const Case& run) { return run.late > 0; }},
    {"threads", 40, [](const Case& run) { return run.threads > 1; }},
    {"halted"},
    {"a link was cut", 40},
    {"one coordinate overflows", 40}};

/// The settings of a case, which begins "rule=adamw,tensors=m1x1,workers=1,...".
[[nodiscard]] const gate::CaseSpec<Case>& spec();

/// How one rank begins: a problem and all parameters, which all ranks should have alike, or the folder in
/// which every rank before has saved.
struct Beginning {
    Problem problem;
    Floats parameters;
    std::filesystem::path folder; ///< empty: it begins with the parameters
    bool sharded = true;
    int threads = 1;
    bool spoiled = false; ///< a first moment that it has read is not finite
};

/// A case with all that follows from it. Properties change scenarios in ways that no case describes.
struct Scenario {
    Problem problem;
    Problem after; ///< the restart, if there is one
    Floats start;
    Index steps = 1;
    Index restart = 0;
    bool sharded = true;
    bool sharded_after = true; ///< the restart
    int threads = 1;
    Index late = 0;
    /// The gradient of the micro-batch with that index among all of a step.
    std::function<Floats(const Problem& problem, Index micro_batch, Index step)> gradient;
    std::function<std::vector<double>(Index step)> rates;
    /// Changes how one rank begins.
    std::function<void(int rank, Beginning& beginning)> change = [](int, Beginning&) {};
    int odd_rank = -1;      ///< that first tries a step with another rate or a micro-batch too few
    Index odd_step = 0;     ///< this one, which then is tried again
    double odd_rate = 0.0;  ///< what it adds to the last group's rate; 0: it lacks a micro-batch
    int strange_rank = -1;  ///< whose file in the checkpoint is of another run
    bool is_older = false;  ///< or of the step before
    int stale_rank = -1;    ///< that begins again from the checkpoint of the step before
    int failing_rank = -1;  ///< whose link is cut; -1: none
    Index failing_step = 0; ///< in this step
    Index exchanges = 0;    ///< that it still begins there

    /// The problem at a step, the first of which is 1.
    [[nodiscard]] const Problem& at(Index step) const {
        return restart > 0 && step > restart ? after : problem;
    }
    [[nodiscard]] int most_ranks() const { return std::max(problem.ranks, at(steps).ranks); }
};

[[nodiscard]] Problem problem_of(const Case& run, Index ranks);
[[nodiscard]] Scenario scenario_of(const Case& run);
/// The index of a rank's first micro-batch.
[[nodiscard]] Index first_micro_batch(const Problem& problem, int rank);

} // namespace truestep::properties::dense
