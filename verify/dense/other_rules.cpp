// Which other rule does a failed trace follow? Each is tried on all of its parameters.
#include <truestep/verify/dense/traces.hpp>

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include <truestep/problem/text.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "verify_as.hpp"

namespace truestep::verify::dense {

namespace {

/// Beyond this many values the diagnosis would take longer than the verdict.
constexpr Index most_values = 20'000'000;

struct Attempt {
    std::string name; ///< "plain SGD"
    Problem problem;
    bool other_rule = false; ///< the whole optimizer is another one, not a setting of it
};

/// The same tensors and rates under another rule. Its settings are PyTorch's, but for those that
/// both rules have.
Group with_rule(const Group& group, Rule rule) {
    Group made = group_of(rule, group.roles);
    if (is_adam(group.rule) && is_adam(rule)) {
        made = group;
        made.rule = rule;
    } else {
        made.weight_decay = group.weight_decay;
        if (!is_adam(group.rule) && !is_adam(rule))
            made.momentum = group.momentum;
    }
    return made;
}

class Attempts {
  public:
    explicit Attempts(const Problem& claimed) : claimed_(claimed) {}

    std::vector<Attempt> all() {
        // Of all groups together, then of each alone.
        std::vector<std::vector<std::size_t>> choices(1);
        for (std::size_t group = 0; group < claimed_.groups.size(); ++group)
            choices.front().push_back(group);
        for (std::size_t group = 0; claimed_.groups.size() > 1 && group < claimed_.groups.size(); ++group)
            choices.push_back({group});
        for (const auto& groups : choices) {
            add_rules(groups);
            add_settings(groups);
        }
        add_of_run();
        return std::move(attempts_);
    }

  private:
    void add(const std::string& name, const std::vector<std::size_t>& groups,
             const std::function<void(Group&)>& change, bool other_rule) {
        Attempt attempt{name, claimed_, other_rule};
        for (const std::size_t group : groups)
            change(attempt.problem.groups[group]);
        if (groups.size() < claimed_.groups.size())
            attempt.name += " in group " + std::to_string(groups.front());
        keep(std::move(attempt));
    }
    /// Keeps what is possible and differs from the claim.
    void keep(Attempt attempt) {
        try {
            problem::dense::check(attempt.problem);
            if (attempt.problem != claimed_)
                attempts_.push_back(std::move(attempt));
        } catch (const Error&) { // for example Muon on a vector
        }
    }

    void add_rules(const std::vector<std::size_t>& groups) {
        const auto rule = [&](
                              const std::string& name, Rule of,
                              const std::function<void(Group&)>& change = [](Group&) {}) {
            add(
                name, groups,
                [&](Group& group) {
                    group = with_rule(group, of);
                    change(group);
                },
                true);
        };
        const auto no_decay = [](Group& group) { group.weight_decay = 0.0; };
        rule("plain SGD", Rule::sgd, [](Group& group) {
            group.momentum = 0.0;
            group.weight_decay = 0.0;
        });
        rule("SGD with coupled weight decay", Rule::sgd, [](Group& group) { group.momentum = 0.0; });
        for (const double momentum : {0.9, 0.95})
            for (const bool nesterov : {false, true})
                rule("SGD with " + std::string(nesterov ? "Nesterov " : "") + "momentum " +
                         shortest(momentum),
                     Rule::sgd, [=](Group& group) {
                         group.momentum = momentum;
                         group.nesterov = nesterov;
                         group.weight_decay = 0.0;
                     });
        rule("Adam with coupled weight decay", Rule::adam);
        rule("AdamW", Rule::adamw);
        rule("Adam without weight decay", Rule::adam, no_decay);
        for (const Iteration iteration : {Iteration::fp32, Iteration::bf16})
            rule("Muon", Rule::muon, [=](Group& group) { group.iteration = iteration; });
    }

    void add_settings(const std::vector<std::size_t>& groups) {
        const auto setting = [&](const std::string& name, const std::function<void(Group&)>& change) {
            add(name, groups, change, false);
        };
        setting("no weight decay", [](Group& group) { group.weight_decay = 0.0; });
        setting("nesterov the other way", [](Group& group) { group.nesterov = !group.nesterov; });
        setting("no momentum", [](Group& group) {
            group.momentum = 0.0;
            group.nesterov = group.nesterov && group.rule == Rule::muon;
        });
        setting("epsilon before the bias correction",
                [](Group& group) { group.epsilon_place = EpsilonPlace::uncorrected; });
        for (const Scale scale :
             {Scale::original, Scale::match_rms_adamw, Scale::spectral_unclamped, Scale::none})
            setting("scale " + std::string(name(scale)), [=](Group& group) { group.scale = scale; });
        setting("iterations in the other format", [](Group& group) {
            group.iteration = group.iteration == Iteration::bf16 ? Iteration::fp32 : Iteration::bf16;
        });
        setting("one iteration less", [](Group& group) { --group.iterations; });
        setting("the other table of polynomials", [](Group& group) {
            group.orthogonalization = group.orthogonalization == Orthogonalization::newton_schulz
                                          ? Orthogonalization::polar_express
                                          : Orthogonalization::newton_schulz;
        });
    }

    void add_of_run() {
        const auto run = [&](const std::string& name, const std::function<void(Problem&)>& change) {
            Attempt attempt{name, claimed_};
            change(attempt.problem);
            keep(std::move(attempt));
        };
        run("no clipping", [](Problem& problem) { problem.clip_norm = 0.0; });
        run(claimed_.accumulation == Accumulation::mean
                ? "gradients divided by the number of ranks, not of micro-batches"
                : "gradients divided by the number of micro-batches, not of ranks",
            [](Problem& problem) {
                problem.accumulation =
                    problem.accumulation == Accumulation::mean ? Accumulation::sum : Accumulation::mean;
            });
    }

    const Problem& claimed_;
    std::vector<Attempt> attempts_;
};

/// "the AdamW that it claims to be"
std::string claim_of(const Problem& problem) {
    constexpr const char* titles[]{"SGD", "Adam", "AdamW", "Muon"};
    std::string rules;
    for (const Group& group : problem.groups)
        if (const std::string one = titles[static_cast<std::size_t>(group.rule)];
            rules.find(one) == std::string::npos)
            rules += (rules.empty() ? "" : " and ") + one;
    return "the " + rules + " that it claims to be";
}

} // namespace

std::string other_rule(const verify::TraceVerdict& verdict) {
    const TraceReader trace(verdict.path);
    const Head& head = trace.head();
    const Problem& claimed = head.config.problem;
    if (head.config.steps * micro_batches_of(claimed) * trace.schema().layout.size() > most_values)
        return {};
    verify::VerifyOptions options;
    options.level = verdict.level;
    options.from = verdict.from;
    for (const Attempt& attempt : Attempts(claimed).all()) {
        const verify::TraceVerdict tried = verify_as(trace, attempt.problem, options, {Result::parameters});
        if (tried.status != verify::Status::passed)
            continue;
        std::string rates;
        const std::vector<double> first = head.rates_of(1);
        for (const double rate : first)
            if (rates.empty() || rate != first.front())
                rates += (rates.empty() ? "" : ", ") + shortest(rate);
        return "every value agrees with " + attempt.name + ", lr " + rates +
               (attempt.other_rule ? ": this optimizer is not " : ", and otherwise with ") +
               claim_of(claimed);
    }
    return {};
}

} // namespace truestep::verify::dense
