// The fields on which ranks of SCAPE and AdamS agree, from the problem to the learning rates.
#include "agreements.hpp"

#include <truestep/distributed/scape/adams.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/problem/settings.hpp>

namespace truestep::distributed::agreements {
namespace {

struct ScapeGiven {
    problem::Problem problem{.layout = problem::Layout({{"a", 70, false}, {"b", 9, false}, {"c", 3, true}}),
                             .segments = {},
                             .settings = {}};
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    std::vector<problem::Range> ranges;
    problem::DensitySchedule density = problem::DensitySchedule::constant(0.5);
    Floats parameters;
    scape::Scape::Options options{};
    double learning_rate = 0.25;
    std::function<void(scape::RankState&)> change; ///< of the state that the rank restores
    bool restores = true;
};

void divide(ScapeGiven& given) {
    given.ranges = problem::ranges(given.problem.layout, ranks, given.partition);
    given.problem.segments = problem::segments(given.problem.layout, given.ranges);
}

ScapeGiven usual_scape(problem::Algorithm algorithm) {
    ScapeGiven given;
    given.problem.algorithm = algorithm;
    given.problem.workers = ranks;
    if (algorithm == problem::Algorithm::scape)
        given.problem.settings.clip_norm = 1.0; // else the norm has no effect
    given.parameters.assign(82, 0.5F);
    divide(given);
    return given;
}

Floats gradient_of(int rank) {
    Floats gradient(82);
    for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(rank)) % 31) - 15.5F;
    return gradient;
}

Lines start_scape(const std::vector<ScapeGiven>& all) {
    return lines_of<Communicator>(ranks, run_ranks, [&](Communicator& communicator) {
        const ScapeGiven& given = all[static_cast<std::size_t>(communicator.rank())];
        const Floats gradient = gradient_of(communicator.rank());
        if (given.problem.algorithm == problem::Algorithm::adams) {
            scape::AdamS rank(given.problem, given.ranges, given.parameters, communicator, given.options);
            rank.step(gradient, 0.25);
            Floats parameters(rank.parameters().begin(), rank.parameters().end());
            Index steps = rank.steps();
            if (given.change) {
                scape::RankState state{.step = steps,
                                       .parameters = parameters,
                                       .residual = {},
                                       .packed_moment = {},
                                       .current = Mask(0),
                                       .coming = Mask(0)};
                given.change(state);
                steps = state.step;
                parameters = state.parameters;
            }
            if (given.restores)
                rank.restore(steps, parameters,
                             Floats(rank.shard_moment().begin(), rank.shard_moment().end()));
            return rank.step(gradient, given.learning_rate);
        }
        scape::Scape rank(given.problem, given.ranges, given.density,
                          scape::make_host_backend(given.problem, given.parameters), communicator,
                          given.options);
        rank.step(gradient, 0.25);
        scape::RankState state = rank.state();
        if (given.change)
            given.change(state);
        if (given.restores)
            rank.restore(state);
        rank.step(gradient, given.learning_rate);
    });
}

/// Selects the last coordinate that is not selected in place of the last that is.
void move_bit(Mask& mask) {
    Index on = mask.size() - 1;
    Index off = on;
    while (!mask.test(on))
        --on;
    while (mask.test(off))
        --off;
    for (const Index index : {on, off})
        mask.words()[index / Mask::word_bits] ^= std::uint64_t{1}
                                                 << static_cast<unsigned>(index % Mask::word_bits);
    mask.count();
}

using ScapeFields = std::vector<Field<ScapeGiven>>;

void add_scape_settings(ScapeFields& fields, const std::set<std::string>& without = {}) {
    problem::visit_settings(
        [&]<class Value>(const std::string& key, Value problem::HyperParameters::*member, const auto&...) {
            const auto change = [member](ScapeGiven& given, int which) {
                given.problem.settings.*member = another(given.problem.settings.*member, which);
            };
            if (!without.contains(key))
                fields.push_back({key, change, "", std::is_signed_v<Value> ? key : ""});
        });
}

Field<ScapeGiven> of_state(std::string name, std::function<void(scape::RankState&)> change,
                           std::string reason = "") {
    return {std::move(name),
            [change = std::move(change)](ScapeGiven& given, int) { given.change = change; },
            std::move(reason)};
}

ScapeFields common_scape_fields() {
    return {
        {"tensors",
         [](ScapeGiven& given, int) {
             given.problem.layout = problem::Layout({{"a", 69, false}, {"b", 10, false}, {"c", 3, true}});
             divide(given);
         }},
        {"partition",
         [](ScapeGiven& given, int) {
             given.partition = problem::PartitionRule::by_tensor;
             divide(given);
         }},
        {"reduction", [](ScapeGiven& given, int) { given.options.reduction = scape::Reduction::native; }},
        {"largest_piece",
         [](ScapeGiven& given, int which) {
             given.options.largest_piece = another(given.options.largest_piece, which);
         },
         "", "largest_piece"},
        {"parameters", [](ScapeGiven& given, int) { given.parameters.back() = -0.5F; }},
        {"learning rate",
         [](ScapeGiven& given, int which) { given.learning_rate = another(given.learning_rate, which); },
         "", "learning rate"},
        {"state", [](ScapeGiven& given, int) { given.restores = false; }},
        of_state("differ in the step", [](scape::RankState& state) { ++state.step; }),
        of_state("differ in the parameters", [](scape::RankState& state) { differ(state.parameters); })};
}

TEST(Agreements, OfScape) {
    // A member that the declarations do not show would not be in the table.
    constexpr auto shown = [] {
        std::size_t rows = 0;
        problem::visit_settings([&](const auto&...) { ++rows; });
        return rows;
    };
    static_assert(members<problem::HyperParameters>() == shown() + 2, "say here how ranks agree on it");
    static_assert(members<problem::Problem>() == 5);
    static_assert(members<scape::Scape::Options>() == 2);
    static_assert(members<scape::RankState>() == 7);
    ScapeFields fields = common_scape_fields();
    add_scape_settings(fields, {"decay_order"}); // of which the optimized code takes one
    const ScapeFields more{
        {"weight_decay is 0.1,0.25", // of another group
         [](ScapeGiven& given, int) { given.problem.settings.more_weight_decays = {0.25}; }},
        {"groups",
         [](ScapeGiven& given, int) {
             given.problem.settings.groups = {2, 1};
         }},
        {"density",
         [](ScapeGiven& given, int) { given.density = problem::DensitySchedule::linear(0.5, 0.25, 9); }},
        of_state("differ in the moment", [](scape::RankState& state) { differ(state.packed_moment); }),
        of_state("differ in the mask", [](scape::RankState& state) { move_bit(state.current); }),
        of_state("differ in the coming mask", [](scape::RankState& state) { move_bit(state.coming); }),
        of_state(
            "residual", [](scape::RankState& state) { differ(state.residual); }, "each rank has its own"),
        of_state(
            "exponent", [](scape::RankState& state) { ++state.exponent; }, "the greatest of all counts")};
    fields.insert(fields.end(), more.begin(), more.end());
    expect_agreements<ScapeGiven>("scape", usual_scape(problem::Algorithm::scape), start_scape, fields);
}

TEST(Agreements, OfAdamS) {
    ScapeFields fields = common_scape_fields();
    // What AdamS does not have, or, for the norm, what has no effect without clipping.
    add_scape_settings(fields, {"decay_order", "clip_norm", "norm", "payload"});
    expect_agreements<ScapeGiven>("adams", usual_scape(problem::Algorithm::adams), start_scape, fields);
}

} // namespace
} // namespace truestep::distributed::agreements
