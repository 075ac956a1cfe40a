// Runs SCAPE's or AdamS's reference on synthetic gradients, and writes the run as a trace.
#include <truestep/verify/scape/record.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/sample.hpp>
#include <truestep/reference/bf16.hpp>
#include <truestep/verify/scape/run.hpp>
#include <truestep/verify/scape/trace.hpp>

namespace truestep::verify::scape {

namespace {

TraceHead make_head(const RecordOptions& options) {
    const problem::Problem& problem = options.problem;
    TraceHead head{options.source, problem, {}, {}, {}};
    head.extent.begin = options.begin;
    if (!options.sample.empty()) {
        head.extent.sample = choose_sample(problem, options.sample);
        head.problem = part(problem, ranges_of(head.extent.sample, problem));
        head.sampled = problem;
    }
    for (Index step = options.begin + 1; step <= options.begin + options.steps + 1; ++step)
        head.density.push_back(problem.algorithm == problem::Algorithm::adams ? 1.0
                                                                              : options.density.at(step));
    return head;
}

/// The learning rates by parameter group. The schedule runs over all steps, including those before
/// the first written one.
std::vector<double> learning_rates_at(const RecordOptions& options, Index step) {
    const Index last = options.begin + options.steps;
    const double progress = last == 1 ? 0.0 : static_cast<double>(step - 1) / static_cast<double>(last - 1);
    const auto between = [&](double at_first, double at_last) {
        return at_first + (at_last - at_first) * progress;
    };
    std::vector<double> rates{between(options.learning_rate, options.final_learning_rate)};
    for (const auto& [at_first, at_last] : options.more_learning_rates)
        rates.push_back(between(at_first, at_last));
    return rates;
}

template <class T>
Vector<float> as_recorded(const Vector<T>& values) {
    Vector<float> result(values.size());
    for (Index i = 0; i < values.size(); ++i)
        result[i] = static_cast<float>(values[i]);
    return result;
}

template <class T>
PerRank<float> as_recorded(const PerRank<T>& of_ranks) {
    PerRank<float> result;
    for (const Vector<T>& values : of_ranks)
        result.push_back(as_recorded(values));
    return result;
}

/// Passes fp32 on unchanged.
StepResults<float> as_recorded(StepResults<float> results) {
    return results;
}

template <class T>
StepResults<float> as_recorded(StepResults<T> results) {
    return {as_recorded(results.local),         std::move(results.mask),
            std::move(results.next_mask),       as_recorded(results.exchanged),
            as_recorded(results.reconstructed), as_recorded(results.residual),
            as_recorded(results.first_moment),  as_recorded(results.parameters)};
}

template <class T>
PerRank<T> to_scalars(const PerRank<float>& of_ranks) {
    PerRank<T> result;
    for (const Vector<float>& values : of_ranks) {
        result.emplace_back(values.size());
        for (Index i = 0; i < values.size(); ++i)
            result.back()[i] = T(static_cast<double>(values[i]));
    }
    return result;
}

template <class T>
PerRank<float> make_gradients(const RecordOptions& options, Index step) {
    const Index size = options.problem.layout.size();
    PerRank<float> gradients;
    for (int rank = 0; rank < options.problem.workers; ++rank) {
        Vector<float> gradient(size);
        problem::fill_gradient({gradient.data(), static_cast<std::size_t>(size)}, options.data,
                               options.seed, rank, step);
        gradients.push_back(std::move(gradient));
    }
    for (const Injection& injection : options.injections)
        if (injection.step == step)
            gradients[static_cast<std::size_t>(injection.rank)][injection.index] = injection.value;
    if constexpr (!std::is_same_v<T, float>)
        gradients = as_recorded(to_scalars<T>(gradients));
    return gradients;
}

void check(const RecordOptions& options) {
    problem::check(options.problem);
    if (options.steps < 1)
        throw Error("--steps is " + std::to_string(options.steps) + "; at least 1 is needed");
    if (options.begin < 0)
        throw Error("--begin is " + std::to_string(options.begin) + "; it must be at least 0");
    const Index last = options.begin + options.steps;
    for (const Injection& injection : options.injections)
        if (injection.step < 1 || injection.step > last || injection.rank < 0 ||
            injection.rank >= options.problem.workers || injection.index < 0 ||
            injection.index >= options.problem.layout.size())
            throw Error("--inject names step " + std::to_string(injection.step) + ", rank " +
                        std::to_string(injection.rank) + ", coordinate " + std::to_string(injection.index) +
                        "; there are steps 1 to " + std::to_string(last) + ", ranks 0 to " +
                        std::to_string(options.problem.workers - 1) + ", coordinates 0 to " +
                        std::to_string(options.problem.layout.size() - 1));
}

/// The synthetic run from its first step on, in full, over the scalar T.
template <class T>
class MadeUp {
  public:
    explicit MadeUp(const RecordOptions& options)
        : options_(options), run_(options.problem, options.density, initial(options)) {}

    struct Step {
        PerRank<float> gradients;
        StepResults<float> results;
    };

    Step next() {
        ++step_;
        Step step{make_gradients<T>(options_, step_), {}};
        const problem::LearningRates rates(learning_rates_at(options_, step_));
        try {
            if constexpr (std::is_same_v<T, float>)
                step.results = run_.step(step.gradients, rates);
            else
                step.results = as_recorded(run_.step(to_scalars<T>(step.gradients), rates));
        } catch (const reference::scape::RefusedStep&) {
            step.results = as_recorded(run_.unchanged());
        }
        return step;
    }

    [[nodiscard]] Run<float>::State state() const {
        auto now = run_.state();
        return {now.step, as_recorded(now.w), as_recorded(now.m), std::move(now.S), as_recorded(now.e)};
    }
    [[nodiscard]] auto exponent() const { return run_.exponent(); }

  private:
    static Vector<T> initial(const RecordOptions& options) {
        Vector<T> parameters(options.problem.layout.size());
        for (Index index = 0; index < parameters.size(); ++index)
            parameters[index] =
                T(static_cast<double>(initial_parameter(options.data, options.seed, index)));
        return parameters;
    }

    const RecordOptions& options_;
    Run<T> run_;
    Index step_ = 0;
};

/// Cuts the part of a sample out of whole vectors.
class SampleCutter {
  public:
    explicit SampleCutter(const TraceHead& head) {
        const problem::Layout& held = head.problem.layout;
        for (Index i = 0; i < held.size(); ++i)
            places_.push_back(held.place(i));
    }

    void cut(Vector<float>& values) const {
        if (values.size() > 0)
            values = Vector<float>(values(places_));
    }
    void cut(PerRank<float>& of_ranks) const {
        for (Vector<float>& values : of_ranks)
            cut(values);
    }
    void cut(Coordinates& mask) const {
        Coordinates held;
        for (std::size_t i = 0; i < places_.size(); ++i)
            if (std::ranges::binary_search(mask, places_[i]))
                held.push_back(static_cast<Index>(i));
        mask = std::move(held);
    }
    void cut(StepResults<float>& results) const {
        for (PerRank<float>* of_ranks : {&results.local, &results.residual})
            cut(*of_ranks);
        for (Coordinates* mask : {&results.mask, &results.next_mask})
            cut(*mask);
        for (Vector<float>* one :
             {&results.exchanged, &results.reconstructed, &results.first_moment, &results.parameters})
            cut(*one);
    }

  private:
    Coordinates places_;
};

std::vector<float> to_list(const Vector<float>& values) {
    return {values.data(), values.data() + values.size()};
}

/// The state that the first written step begins with.
InitialState initial_state(const RecordOptions& options, const TraceHead& head,
                           const Run<float>::State& held) {
    InitialState initial;
    if (options.begin == 0)
        return initial;
    initial.first_moment = to_list(held.m);
    for (const Vector<float>& residual : held.e)
        initial.residual.push_back(to_list(residual));
    if (held.S)
        initial.mask = to_bits(*held.S, head.problem.layout.size());
    return initial;
}

/// Adds norms and scales to the head. They must be known before the first step is written, so the
/// run is made twice.
template <class T>
void add_scalars(const RecordOptions& options, TraceHead& head) {
    const bool norms = needs_norm(head.whole(), head.extent);
    const bool exponents = needs_exponent(head.whole(), head.extent);
    if (!norms && !exponents)
        return;
    MadeUp<T> run(options);
    for (Index step = 1; step <= options.begin + options.steps; ++step) {
        const StepResults<float> results = run.next().results;
        const bool refused = results.reconstructed.size() == 0;
        if (step > options.begin && norms)
            head.norm.push_back(refused ? 0.0
                                        : reference::scape::norm_in_blocks<double>(
                                              Vector<float>(results.reconstructed(results.mask)),
                                              options.problem.settings.norm));
        if (step > options.begin && exponents)
            head.exponent.push_back(refused ? 0 : *run.exponent());
    }
}

template <class T>
void write_run(const std::filesystem::path& path, const RecordOptions& options) {
    TraceHead head = make_head(options);
    add_scalars<T>(options, head);
    MadeUp<T> run(options);
    for (Index step = 1; step <= options.begin; ++step)
        static_cast<void>(run.next());
    auto state = run.state();
    if (options.begin > 0 && state.step != options.begin)
        throw Error("some steps before the first one written are refused; choose other settings");
    const SampleCutter cut(head);
    if (head.sampled) {
        for (Vector<float>* one : {&state.w, &state.m})
            cut.cut(*one);
        cut.cut(state.e);
        if (state.S)
            cut.cut(*state.S);
    }
    head.initial_parameters = to_list(state.w);
    for (Index step = 1; step <= options.steps; ++step)
        for (const double rate : learning_rates_at(options, options.begin + step))
            head.learning_rate.push_back(rate);
    TraceWriter writer(path, head, options.intermediates, options.replicas,
                       initial_state(options, head, state));
    for (Index step = 1; step <= options.steps; ++step) {
        options.progress(step, options.steps);
        auto made = run.next();
        if (head.sampled) {
            cut.cut(made.gradients);
            cut.cut(made.results);
        }
        writer.write_step(made.gradients, made.results);
    }
    writer.finish();
}

} // namespace

void record(const std::filesystem::path& path, const RecordOptions& options) {
    check(options);
    check_room(path, options.problem.workers, options.problem.layout.size(), options.steps);
    try {
        if (options.arithmetic == Arithmetic::bf16)
            write_run<reference::Bf16>(path, options);
        else
            write_run<float>(path, options);
    } catch (const reference::scape::Halted& halted) {
        throw Error(path.string() + ": not written: " + halted.what() + " (choose other settings)");
    }
}

} // namespace truestep::verify::scape
