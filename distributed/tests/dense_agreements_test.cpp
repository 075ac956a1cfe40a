// The fields on which ranks of dense training agree; and that a row of the table can fail.
#include "agreements.hpp"

#include <truestep/distributed/dense/worker.hpp>

namespace truestep::distributed::agreements {
namespace {

struct DenseGiven {
    dense::Problem problem;
    Floats parameters;
    dense::Options options{};
    double learning_rate = 0.25;
    Index steps = 0; ///< above 0: the ranks continue from a state
    std::function<void(dense::State&)> change = [](dense::State&) {};
};

DenseGiven usual_dense(dense::Rule rule) {
    DenseGiven given;
    given.problem.ranks = ranks;
    given.problem.micro_batches = {2, 1, 1}; // which order `tree` takes, too
    given.problem.tensors = {{"a", {4, 3}, "matrix"}, {"b", {5}, "other"}};
    given.problem.groups = {dense::group_of(rule, {"matrix"}),
                            dense::group_of(dense::Rule::sgd, {"other"})};
    if (rule == dense::Rule::sgd)
        given.problem.groups.front().momentum = 0.5;
    given.parameters.assign(17, 0.5F);
    return given;
}

Lines start_dense(const std::vector<DenseGiven>& all) {
    return lines_of<Communicator>(ranks, run_ranks, [&](Communicator& communicator) {
        const auto rank = static_cast<std::size_t>(communicator.rank());
        const DenseGiven& given = all[rank];
        if (given.steps > 0) {
            dense::State state =
                dense::first_state(given.problem, dense::Ownership(given.problem, given.options.sharded),
                                   communicator.rank(), given.parameters);
            state.steps = given.steps;
            given.change(state);
            dense::Worker(given.problem, state, communicator, given.options);
            return;
        }
        dense::Worker worker(given.problem, given.parameters, communicator, given.options);
        for (int i = 0; i < given.problem.micro_batches[rank]; ++i)
            worker.add(Floats(given.parameters.size(), 0.25F));
        worker.step(std::vector<double>(given.problem.groups.size(), given.learning_rate));
    });
}

TEST(Agreements, ARankOfDenseTrainingWithoutThreadsIsNamedByTheOthers) {
    std::vector<DenseGiven> given(ranks, usual_dense(dense::Rule::adamw));
    given[odd].options.threads = 0;
    const Lines lines = start_dense(given);
    for (std::size_t rank = 0; rank < lines.size(); ++rank)
        EXPECT_NE(lines[rank].find(rank == odd ? "threads is 0" : "rank 1"), std::string::npos)
            << lines[rank];
}

TEST(Agreements, OfDenseTraining) {
    static_assert(members<dense::Problem>() == 8, "say here how ranks agree on it");
    static_assert(members<dense::Options>() == 2, "say here how ranks agree on it");
    using Fields = std::vector<Field<DenseGiven>>;
    std::set<std::string> shown;
    for (const dense::Rule rule :
         {dense::Rule::sgd, dense::Rule::adam, dense::Rule::adamw, dense::Rule::muon}) {
        const DenseGiven usual = usual_dense(rule);
        Fields fields;
        add_settings(
            fields, usual, [](DenseGiven& given) -> dense::Group& { return given.problem.groups[0]; },
            "group 0's ");
        for (const auto& field : fields)
            shown.insert(field.name);
        expect_agreements<DenseGiven>("dense, " + std::string(name(rule)), usual, start_dense, fields);
    }
    // All but rule and roles; the coefficients are three.
    EXPECT_EQ(shown.size(), members<dense::Group>() - 3 + 3) << "a member of Group is in no rule";
    const Fields fields{
        {"group 0's rule",
         [](DenseGiven& given, int) { given.problem.groups[0].rule = dense::Rule::adam; }},
        {"group 1's roles",
         [](DenseGiven& given, int) { given.problem.groups[1].roles.emplace_back("more"); }},
        {"number of groups",
         [](DenseGiven& given, int) {
             given.problem.tensors[1].role = "matrix";
             given.problem.groups.pop_back();
         }},
        {"number of tensors",
         [](DenseGiven& given, int) {
             given.problem.tensors[1].shape = {3};
             given.problem.tensors.push_back({"c", {2}, "other"});
         }},
        {"tensor", [](DenseGiven& given, int) { given.problem.tensors[1].name = "c"; }},
        {"order", [](DenseGiven& given, int) { given.problem.order = dense::Order::tree; }},
        {"accumulation",
         [](DenseGiven& given, int) { given.problem.accumulation = dense::Accumulation::sum; }},
        {"clip_norm",
         [](DenseGiven& given, int which) {
             given.problem.clip_norm = another(given.problem.clip_norm, which);
         },
         "", "clip_norm"},
        {"copies", [](DenseGiven& given, int) { given.problem.copies = dense::Copies::bf16; }},
        {"micro_batches",
         [](DenseGiven& given, int) {
             given.problem.micro_batches = {2, 2, 1};
         }},
        {"sharded", [](DenseGiven& given, int) { given.options.sharded = false; }},
        {"threads", [](DenseGiven& given, int) { given.options.threads = 2; }, "threads change no bit"},
        {"parameters", [](DenseGiven& given, int) { differ(given.parameters); }},
        {"learning rate",
         [](DenseGiven& given, int which) { given.learning_rate = another(given.learning_rate, which); },
         "", "rate"}};
    DenseGiven usual = usual_dense(dense::Rule::adamw);
    expect_agreements<DenseGiven>("dense", usual, start_dense, fields);
    usual.steps = 1;
    static_assert(members<dense::State>() == 5, "say here how ranks agree on it");
    for (const bool sharded : {true, false}) {
        usual.options.sharded = sharded;
        const auto part = [&](std::string name, Floats dense::State::*values) {
            const auto change = [values](dense::State& state) { differ(state.*values); };
            return Field<DenseGiven>{std::move(name),
                                     [change](DenseGiven& given, int) { given.change = change; },
                                     sharded ? "each rank has its own" : ""};
        };
        expect_agreements<DenseGiven>(
            sharded ? "dense, from a state" : "dense, from a state of all parameters", usual, start_dense,
            {{"step", [](DenseGiven& given, int) { ++given.steps; }},
             part("parameters", &dense::State::w),
             part("first moments", &dense::State::m),
             part("second moments", &dense::State::v)});
    }
}

// The judge of a row, by lines that are wrong.
TEST(Agreements, ARowCanFail) {
    const std::string good = "rank 1 has eta 0.5 where rank 0 has 1";
    EXPECT_EQ(fault_of({good, good}, "eta", "", "rank 1"), "");
    EXPECT_EQ(fault_of({good, ""}, "eta", "", "rank 1"), "is not told: rank 1 goes on");
    for (const std::string wrong : {"rank 1 has alpha 0.5", "rank 2 has eta 0.5", "rank 1\nhas eta 0.5"})
        EXPECT_EQ(fault_of({good, wrong}, "eta", "", "rank 1"),
                  "is told as something else on rank 1: " + wrong);
    EXPECT_EQ(fault_of({good}, "eta", "own", "rank 1"), "is told, though ranks may differ in it: " + good);
    EXPECT_EQ(fault_of({"", ""}, "eta", "own", "rank 1"), "");
}

} // namespace
} // namespace truestep::distributed::agreements
