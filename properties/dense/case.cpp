// Declares the settings of a case of dense training: what is drawn, parsed and shrunk.
#include "case.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <truestep/problem/partition.hpp>

namespace truestep::properties::dense {

namespace {

using gate::from_to;
using gate::number;
using gate::one_of;

/// The roles by their letters in a case.
const std::vector<std::pair<char, std::string>> roles{{'m', "matrix"}, {'v', "vector"}, {'e', "embedding"}};

std::string tensors_text(const std::vector<Tensor>& tensors) {
    std::string text;
    for (const Tensor& tensor : tensors) {
        text += text.empty() ? "" : "/";
        for (const auto& [letter, role] : roles)
            if (role == tensor.role)
                text += letter;
        for (std::size_t i = 0; i < tensor.shape.size(); ++i)
            text += (i == 0 ? "" : "x") + std::to_string(tensor.shape[i]);
    }
    return text;
}

std::vector<Tensor> parse_tensors(const std::string& name, const std::string& text) {
    const auto wrong = [&] {
        return Error(name + " is '" + text +
                     "'; it must be tensors with '/' between them, each m (matrix), v (vector) or e "
                     "(embedding) and its shape, as in m3x4/v5");
    };
    std::vector<Tensor> tensors;
    std::string_view rest = text;
    while (true) {
        const std::string_view one = rest.substr(0, rest.find('/'));
        const auto role =
            std::ranges::find(roles, one.empty() ? ' ' : one.front(), &std::pair<char, std::string>::first);
        if (role == roles.end())
            throw wrong();
        std::string shape(one.substr(1));
        std::ranges::replace(shape, 'x', ',');
        const auto extents = parse_numbers<Index>(shape);
        if (!extents || std::ranges::any_of(*extents, [](Index extent) { return extent < 0; }) ||
            extents->size() > 3 || (role->first == 'm' && extents->size() != 2))
            throw wrong();
        const std::size_t turn = tensors.size() / 26;
        tensors.push_back({static_cast<char>('a' + tensors.size() % 26) +
                               (turn == 0 ? std::string() : std::to_string(turn)),
                           *extents, role->second});
        if (one.size() == rest.size())
            return tensors;
        rest.remove_prefix(one.size() + 1);
    }
}

/// Matrices, vectors, and embeddings, whose two extents make no matrix for Muon of them.
rc::Gen<std::vector<Tensor>> tensors() {
    const rc::Gen<std::string> shapes =
        one_of<std::string>({"m1x1", "m2x3", "v1", "v5", "e2x3", "m3x2", "m1x4", "m4x4", "v3", "m5x2",
                             "e4x1", "m3x7", "v17", "v1x2x3"});
    const auto texts = rc::gen::mapcat(
        rc::Gen<std::size_t>(one_of<std::size_t>({1, 2, 3, 4})), [shapes](std::size_t count) {
            return rc::gen::container<std::vector<std::string>>(count, shapes);
        });
    return rc::gen::map(texts, [](const std::vector<std::string>& all) {
        std::string text;
        for (const std::string& one : all)
            text += (text.empty() ? "" : "/") + one;
        return parse_tensors("tensors", text);
    });
}

template <class Choice>
gate::Setting<Case> choice(Choice Case::*member) {
    const auto names = words(Choice{}); // the setting's, and those of its values
    const std::vector<std::string> texts(names.begin() + 1, names.end());
    std::vector<Choice> values;
    for (std::size_t i = 0; i < texts.size(); ++i)
        values.push_back(static_cast<Choice>(i));
    return gate::word(std::string(names[0]), member, texts).draws(one_of(values), member);
}

std::vector<gate::Setting<Case>> settings() {
    constexpr Index most = 1'000'000;
    return {
        choice(&Case::rule)
            .draws(one_of<Rule>({Rule::adamw, Rule::sgd, Rule::adam, Rule::muon, Rule::muon}), &Case::rule)
            .asked("rules of the matrices", {"muon", "momentum", "not only Muon"})
            .in_rows({"sgd", "adam", "adamw", "muon"})
            .always(),
        gate::Setting<Case>{
            .key = "tensors",
            .write = [](const Case& run) { return tensors_text(run.tensors); },
            .read = [](Case& run, const std::string& name,
                       const std::string& text) { run.tensors = parse_tensors(name, text); }}
            .draws(tensors(), &Case::tensors)
            .asked("this model, as m3x4/v5/e2x3: a matrix, a vector, an embedding",
                   {"muon", "several tensors", "not only Muon", "more ranks than parameters"})
            .one_text()
            .always(),
        number("workers", &Case::workers, 1, 64)
            .draws(one_of<Index>({1, 2, 3, 4, 5, 8, 2, 3}), &Case::workers)
            .asked("numbers of ranks", {"several ranks", "no power of two", "more ranks than parameters"})
            .in_rows({"1", "2", "3", "4", "8"})
            .always(),
        number("steps", &Case::steps, 1, most).draws(one_of<Index>({1, 2, 3, 4}), &Case::steps).always(),
        number("seed", &Case::seed, 0, most).draws(from_to<Index>(1, 99), &Case::seed).always(),
        gate::word("data", &Case::data, problem::parse_data_class)
            .draws(
                one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::normal, DataClass::wide,
                                   DataClass::zeros, DataClass::subnormal, DataClass::ties,
                                   DataClass::sparse, DataClass::limit, DataClass::once}),
                &Case::data),
        number("micro", &Case::micro, 1, 64)
            .draws(one_of<Index>({1, 2, 3, 4}), &Case::micro)
            .asked("numbers of micro-batches of a rank", {"micro-batches"})
            .named("micro-batches"),
        number("uneven", &Case::uneven, 0, 63).draws(one_of<Index>({0, 0, 1}), &Case::uneven),
        choice(&Case::order).asked("orders of the mean", {"tree"}).in_rows({"rank", "tree"}),
        choice(&Case::accumulation),
        number("clip", &Case::clip, 0.0, 1e30)
            .draws(one_of<double>({0.0, 0.125, 0.0, 1e6}), &Case::clip)
            .asked("this norm; 0: no clipping", {"clipped"})
            .named("clip-norm")
            .one_text(),
        choice(&Case::copies).asked("copies of the parameters", {"copies"}),
        gate::word("groups", &Case::groups, {"one", "two", "mixed"})
            .draws(one_of<Dealing>({Dealing::one, Dealing::two, Dealing::mixed}), &Case::groups),
        number("lr", &Case::lr, 0.0, 1e6).draws(one_of<double>({0.5, 0.1, 0.01}), &Case::lr),
        number("decay", &Case::decay, 0.0, 1e30).draws(one_of<double>({0.0, 0.5, 0.01}), &Case::decay),
        number("momentum", &Case::momentum, 0.0, 1.0)
            .draws(one_of<double>({0.5, 0.95, 0.0, 0.9}), &Case::momentum),
        number("dampening", &Case::dampening, 0.0, 1.0)
            .draws(one_of<double>({0.0, 0.5, 0.0}), &Case::dampening),
        number("nesterov", &Case::nesterov, 0, 1).draws(one_of<Index>({0, 1}), &Case::nesterov),
        number("beta1", &Case::beta1, 0.0, 1.0).draws(one_of<double>({0.5, 0.9, 0.0}), &Case::beta1),
        number("beta2", &Case::beta2, 0.0, 1.0)
            .draws(one_of<double>({0.75, 0.999, 0.95, 0.0}), &Case::beta2),
        number("epsilon", &Case::epsilon, 0x1p-149, 1e10)
            .draws(one_of<double>({0.125, 1e-8, 1e-8}), &Case::epsilon),
        choice(&Case::epsilon_place),
        choice(&Case::orthogonalization),
        number("iterations", &Case::iterations, 1, 20).draws(one_of<Index>({5, 1, 8}), &Case::iterations),
        choice(&Case::iteration)
            .draws(one_of<Iteration>({Iteration::fp32, Iteration::fp32, Iteration::bf16}),
                   &Case::iteration),
        choice(&Case::scale),
        number("sharded", &Case::sharded, 0, 1).draws(one_of<Index>({1, 1, 0}), &Case::sharded),
        number("refused", &Case::refused, 0, most).draws(one_of<Index>({0, 0, 0, 1, 2}), &Case::refused),
        number("restart", &Case::restart, 0, most).draws(one_of<Index>({0, 0, 1, 2}), &Case::restart),
        number("to", &Case::to, 0, 64).draws(one_of<Index>({0, 1, 2, 3, 4}), &Case::to),
        number("resharded", &Case::resharded, 0, 1).draws(one_of<Index>({0, 0, 1}), &Case::resharded),
        number("late", &Case::late, 0, 100).draws(one_of<Index>({0, 0, 0, 1, 2, 3}), &Case::late),
        number("threads", &Case::threads, 1, 16).draws(one_of<Index>({1, 1, 3}), &Case::threads)};
}

/// A case of one rule as one of another, for who lacks the first.
template <Rule lacking, Rule other>
void other_rule(Case& run) {
    run.rule = run.rule == lacking ? other : run.rule;
}

/// What goes together: a restart is followed by a step, a tree has splits that it allows, and Nesterov
/// has no dampening.
void fit(Case& run) {
    run.restart = run.restart < run.steps ? run.restart : 0;
    run.to = run.restart > 0 ? run.to : 0;
    run.refused = run.refused <= run.steps ? run.refused : 0;
    run.nesterov = run.momentum == 0.0 ? 0 : run.nesterov;
    run.dampening = run.nesterov == 1 ? 0.0 : run.dampening;
    if (run.order == Order::tree && (run.micro & (run.micro - 1)) != 0)
        run.micro = 2;
    run.uneven = run.micro > 1 && run.workers > 1 ? run.uneven : 0;
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    static const gate::CaseSpec<Case> all{
        .settings = settings(),
        .own_key = "rule",
        .fits_drawn = fit,
        .fits =
            [](const Case& run, const auto&) {
                Case fitting = run;
                fit(fitting);
                for (const auto& setting : spec().settings)
                    if (const std::string given = setting.write(run); given != setting.write(fitting))
                        throw Error("case: " + setting.key + " is " + given +
                                    ", which does not go with the other settings; " +
                                    setting.write(fitting) + " does");
                check(problem_of(run, run.workers));
            },
        .features = {{"restart",
                      [](Case& run) { run.restart = run.to = run.resharded = 0; },
                      {"restart", "other number of ranks"}},
                     {"copies", [](Case& run) { run.copies = Copies::none; }, {"copies"}},
                     {"muon", other_rule<Rule::muon, Rule::adamw>, {"muon"}},
                     {"adam", other_rule<Rule::adam, Rule::adamw>},
                     {"sgd",
                      [](Case& run) {
                          other_rule<Rule::sgd, Rule::adamw>(run);
                          run.groups = run.groups == Dealing::mixed ? Dealing::two : run.groups;
                      }},
                     {"adamw", other_rule<Rule::adamw, Rule::sgd>, {"momentum"}}},
        .columns = {"workers", "rule", "order"},
        .most_workers = [](const Case& run) { return static_cast<int>(std::max(run.workers, run.to)); },
        .values_for =
            [](const gate::Implementation& implementation, const std::string& key,
               std::vector<std::string> values) {
                std::erase_if(values,
                              [&, unsupported = implementation.unsupported()](const std::string& value) {
                                  return key == "rule" && unsupported.contains(value);
                              });
                return values;
            },
        .fits_pins =
            [](Case& run, const Case&, const gate::Overrides& overrides) {
                // A tree is left out for numbers of micro-batches that it does not allow.
                if (overrides.contains("micro-batches") && (run.micro & (run.micro - 1)) != 0)
                    run.order = Order::rank;
                fit(run);
            }};
    return all;
}

Index first_micro_batch(const Problem& problem, int rank) {
    return std::accumulate(problem.micro_batches.begin(), problem.micro_batches.begin() + rank, Index{0});
}

Problem problem_of(const Case& run, Index ranks) {
    Problem problem;
    problem.ranks = static_cast<int>(ranks);
    problem.micro_batches.assign(static_cast<std::size_t>(ranks), static_cast<int>(run.micro));
    // In a tree only the last rank may have fewer.
    if (run.uneven > 0 && ranks > 1)
        problem.micro_batches.back() =
            run.order == Order::tree ? static_cast<int>(std::max<Index>(1, run.micro - run.uneven)) : 1;
    problem.order = run.order;
    problem.accumulation = run.accumulation;
    problem.clip_norm = run.clip;
    problem.copies = run.copies;
    problem.tensors = run.tensors;
    Group first = group_of(run.rule, {"matrix"});
    first.weight_decay = run.decay;
    first.momentum = run.momentum;
    first.dampening = run.dampening;
    first.nesterov = run.nesterov == 1;
    first.beta1 = run.beta1;
    first.beta2 = run.beta2;
    first.epsilon = run.epsilon;
    first.epsilon_place = run.epsilon_place;
    first.orthogonalization = run.orthogonalization;
    first.iterations = static_cast<int>(run.iterations);
    first.iteration = run.iteration;
    first.scale = run.scale;
    Group others = first;
    others.roles = {"vector", "embedding"};
    if (run.rule == Rule::muon) {
        others.rule = Rule::adamw;
    }
    if (run.groups != Dealing::one) {
        others.weight_decay = 0.25;
        others.beta1 = 0.25;
        others.momentum = run.momentum == 0.0 ? 0.0 : 0.75;
    } else if (run.rule != Rule::muon) {
        first.roles = {"matrix", "vector", "embedding"};
    }
    problem.groups = {first};
    if (first.roles.size() == 1)
        problem.groups.push_back(others);
    if (run.groups == Dealing::mixed) {
        problem.groups[1].roles = {"vector"};
        problem.groups.push_back(group_of(Rule::sgd, {"embedding"}));
    }
    std::erase_if(problem.groups, [&](const Group& group) {
        return std::ranges::none_of(run.tensors, [&](const Tensor& tensor) {
            return std::ranges::find(group.roles, tensor.role) != group.roles.end();
        });
    });
    return problem;
}

Scenario scenario_of(const Case& run) {
    const auto seed = static_cast<std::uint64_t>(run.seed);
    Scenario scenario;
    scenario.problem = problem_of(run, run.workers);
    scenario.after = problem_of(run, run.to == 0 ? run.workers : run.to);
    const Index size = layout_of(scenario.problem).size();
    scenario.start = problem::initial_parameters(run.data, seed, size);
    scenario.steps = run.steps;
    scenario.restart = run.restart;
    scenario.sharded = run.sharded == 1;
    scenario.sharded_after = scenario.sharded != (run.resharded == 1);
    scenario.threads = static_cast<int>(run.threads);
    scenario.late = run.late;
    scenario.gradient = [run, seed, size](const Problem& problem, Index micro_batch, Index step) {
        Floats values = problem::gradient(run.data, seed, static_cast<int>(micro_batch), step, size);
        // Sums of the class's own values may be exact in any order.
        if (run.data != DataClass::dyadic)
            for (float& value : values)
                value *= 0.7F + 0.1F * static_cast<float>(micro_batch % 4);
        if (run.seed % 8 == 6 && problem.tensors.size() > 1) { // one has no gradient in any step
            const problem::Layout layout = layout_of(problem);
            const std::size_t idle = static_cast<std::size_t>(run.seed / 8) % problem.tensors.size();
            std::fill(values.begin() + layout.begin(idle), values.begin() + layout.end(idle), 0.0F);
        }
        if (step == run.refused) {
            constexpr float most = 0x1p56F;
            const bool is_bad = micro_batch == run.seed % micro_batches_of(problem);
            float& value = values[static_cast<std::size_t>(run.seed % size)];
            if (run.seed % 3 == 2) // beyond the limit, and the sum of two is not
                value = is_bad ? 1.5F * most : -most;
            else if (is_bad)
                value = run.seed % 3 == 0 ? std::numeric_limits<float>::infinity()
                                          : std::numeric_limits<float>::quiet_NaN();
        }
        return values;
    };
    // A power of two from step to step, and another for each group. A warm-up may begin at 0.
    scenario.rates = [run, groups = scenario.problem.groups.size()](Index step) {
        const bool rests = step == 1 && run.steps > 1 && run.seed % 8 == 3;
        std::vector<double> rates;
        for (std::size_t group = 0; group < groups; ++group)
            rates.push_back(rests ? 0.0
                                  : run.lr * (step % 2 == 1 ? 1.0 : 0.5) / static_cast<double>(group + 1));
        return rates;
    };
    return scenario;
}

} // namespace truestep::properties::dense
