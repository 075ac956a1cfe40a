// Trains the base line and each implementation over seeds, in parallel, and judges the curves.
#include <truestep/training/convergence.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include <truestep/gate/processes.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/training/results.hpp>

#include "learner.hpp"
#include "run_json.hpp"

namespace truestep::training {

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

gate::Learning::LearningTask lesson_of(const ConvergeSettings& settings, std::uint64_t seed) {
    const Plan& plan = settings.plan;
    return {.setting = settings.setting,
            .layout = layout_of(plan.shape),
            .parameters = initial_parameters(plan.shape, seed),
            .steps = static_cast<problem::Index>(plan.steps),
            .warm_up = static_cast<problem::Index>(plan.density_warm_up),
            .restart_at = static_cast<problem::Index>(settings.restart_at),
            .learning_rate = [&plan](problem::Index step) {
                return learning_rate_at(plan, static_cast<std::size_t>(step));
            }};
}

/// The result of a run whose process died.
LearnedRun lost(const ConvergeSettings& settings, const std::string& name, std::uint64_t seed,
                const std::string& how) {
    LearnedRun run{{name, seed, settings.plan.learning_rate, {}}, how, 0};
    // It has points where other runs are measured, since only such runs can be averaged.
    for (std::size_t step = 0; step <= settings.plan.steps; ++step)
        if (is_measured(settings.plan, step))
            run.curve.points.push_back({step, std::numeric_limits<double>::quiet_NaN(), 0});
    return run;
}

bool same_bits(const std::vector<Curve>& base, const Curve& run) {
    const auto partner = std::ranges::find(base, run.seed, &Curve::seed);
    return partner != base.end() &&
           std::ranges::equal(partner->points, run.points, {}, &Curve::Point::loss, &Curve::Point::loss);
}

} // namespace

LearnedRun learn(const ConvergeSettings& settings, const Text& text,
                 const gate::Implementation& implementation, std::uint64_t seed, bool turned) {
    Learner learner(settings, text, seed, turned);
    LearnedRun run;
    try {
        settings.learning.train(implementation, lesson_of(settings, seed), learner);
    } catch (const std::exception& error) {
        run.ended = one_line(error.what());
    }
    run.curve = learner.curve(implementation.name());
    run.digest = learner.digest();
    return run;
}

Convergence::Convergence(const ConvergeSettings& settings, int jobs, double run_seconds)
    : settings_(settings), jobs_(jobs), run_seconds_(run_seconds), text_(text_named(settings.text)) {
    settings_.plan.shape.symbols = text_.symbols;
    check(settings_.plan, text_);
    if (settings.pairs < 2 || settings.base_pairs < settings.pairs || settings.micro_batches < 1)
        throw Error("a convergence takes 2 pairs at least, as many of the base line, and a micro-batch");
    results_.text = words_of(text_);
    results_.levels = {floors(text_), text_.entropy};
}

std::vector<Convergence::Done> Convergence::run_all(const std::vector<PlannedRun>& wanted) const {
    std::vector<Done> done;
    gate::Progress progress("converge");
    std::vector<gate::Piece> pieces;
    for (const PlannedRun& one : wanted) {
        const std::string name = one.implementation->name();
        const auto work = [this, one, name](const gate::ProcessEnd& before) -> Json {
            const auto begin = Clock::now();
            if (!before.how.empty())
                return {{"run", json_of(lost(settings_, name, one.seed, before.how))}, {"seconds", 0.0}};
            gate::now_running("the run of " + name + ", seed " + std::to_string(one.seed));
            const LearnedRun run = learn(settings_, text_, *one.implementation, one.seed, one.turned);
            return {{"run", json_of(run)},
                    {"seconds", std::chrono::duration<double>(Clock::now() - begin).count()}};
        };
        pieces.push_back({.work = work,
                          .told =
                              [&](const Json& answer) {
                                  done.push_back({run_of(answer.at("run")), answer.at("seconds")});
                                  progress.show(static_cast<std::int64_t>(done.size()),
                                                static_cast<std::int64_t>(wanted.size()));
                              },
                          .here = one.implementation->stays_here()});
    }
    gate::run_pieces(pieces, {.at_a_time = jobs_, .most_seconds = run_seconds_});
    return done;
}

void Convergence::run_base() {
    std::vector<PlannedRun> wanted;
    for (std::uint64_t seed = 1; seed <= settings_.base_pairs; ++seed)
        for (const bool turned : {false, true})
            wanted.push_back({settings_.learning.base, seed, turned});
    std::vector<Curve> twins;
    const std::vector<Done> done = run_all(wanted);
    for (std::size_t i = 0; i < done.size(); ++i) {
        if (!done[i].run.ended.empty())
            throw Error("the base line has not come to its end: " + done[i].run.ended);
        (wanted[i].turned ? twins : base_).push_back(done[i].run.curve);
        if (!wanted[i].turned)
            base_digests_.push_back(done[i].run.digest);
    }
    results_.sigma = sigma_of_twins(base_, twins);
    results_.curves = base_;
}

std::vector<Convergence::ImplementationVerdict>
Convergence::judge(const gate::Implementations& candidates) {
    std::vector<PlannedRun> wanted;
    for (const auto& candidate : candidates)
        for (std::uint64_t seed = 1; seed <= settings_.pairs; ++seed)
            wanted.push_back({candidate, seed, false});
    const std::vector<Done> done = run_all(wanted);
    std::vector<ImplementationVerdict> all;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const auto begin = done.begin() + static_cast<std::ptrdiff_t>(i * settings_.pairs);
        all.push_back(
            judged(candidates[i]->name(), {begin, begin + static_cast<std::ptrdiff_t>(settings_.pairs)}));
    }
    return all;
}

Convergence::ImplementationVerdict Convergence::judged(const std::string& candidate,
                                                       const std::vector<Done>& runs) {
    ImplementationVerdict one{.candidate = candidate,
                              .verdict = {},
                              .ended = {},
                              .seconds = 0,
                              .same_bits = true,
                              .same_states = true};
    std::vector<Curve> curves;
    for (const Done& done : runs) {
        curves.push_back(done.run.curve);
        curves.back().optimizer = candidate; // the base line is not a candidate
        one.seconds += done.seconds;
        one.same_bits = one.same_bits && same_bits(base_, done.run.curve);
        one.same_states = one.same_states && done.run.ended.empty() &&
                          done.run.digest == base_digests_[static_cast<std::size_t>(&done - runs.data())];
        if (one.ended.empty() && !done.run.ended.empty())
            one.ended = "seed " + std::to_string(done.run.curve.seed) + " ended: " + done.run.ended;
    }
    const std::string base = base_.front().optimizer;
    const std::vector<Curve> partners(base_.begin(),
                                      base_.begin() + static_cast<std::ptrdiff_t>(settings_.pairs));
    one.verdict = training::judge(partners, curves, results_.sigma, settings_.margin,
                                  trigram(results_.levels.floors));
    if (!one.ended.empty())
        one.verdict.why = one.ended;
    results_.comparisons.push_back({.base = base,
                                    .candidate = candidate,
                                    .setting = std::to_string(settings_.plan.steps) + " steps, " +
                                               std::to_string(settings_.plan.ranks) + " ranks, " +
                                               settings_.setting.words,
                                    .verdict = one.verdict});
    results_.curves.insert(results_.curves.end(), curves.begin(), curves.end());
    return one;
}

} // namespace truestep::training
