#include <scape/verify/record.hpp>

#include <cstddef>
#include <utility>

#include <scape/problem/error.hpp>
#include <scape/verify/run.hpp>
#include <scape/verify/trace.hpp>

namespace scape::verify {

namespace {

TraceHead make_head(const RecordOptions& options) {
    const problem::Problem& problem = options.problem;
    TraceHead head{options.source, problem, {}, {}, {}};
    for (Index step = 1; step <= options.steps; ++step) {
        const double progress =
            options.steps == 1 ? 0.0
                               : static_cast<double>(step - 1) / static_cast<double>(options.steps - 1);
        head.learning_rate.push_back(options.learning_rate +
                                     (options.final_learning_rate - options.learning_rate) * progress);
    }
    for (Index step = 1; step <= options.steps + 1; ++step)
        head.density.push_back(problem.algorithm == problem::Algorithm::adams ? 1.0
                                                                              : options.density.at(step));
    for (Index index = 0; index < problem.layout.size(); ++index)
        head.initial_parameters.push_back(initial_parameter(options.data, options.seed, index));
    return head;
}

PerRank<float> make_gradients(const RecordOptions& options, Index step) {
    const Index size = options.problem.layout.size();
    PerRank<float> gradients;
    for (int rank = 0; rank < options.problem.workers; ++rank) {
        Vector<float> gradient(size);
        problem::fill_gradient({gradient.data(), static_cast<std::size_t>(size)}, options.data, options.seed,
                               rank, step);
        gradients.push_back(std::move(gradient));
    }
    for (const Injection& injection : options.injections)
        if (injection.step == step)
            gradients[static_cast<std::size_t>(injection.rank)][injection.index] = injection.value;
    return gradients;
}

void check(const RecordOptions& options) {
    problem::check(options.problem);
    if (options.steps < 1)
        throw Error("--steps is " + std::to_string(options.steps) + "; at least 1 is needed");
    for (const Injection& injection : options.injections)
        if (injection.step < 1 || injection.step > options.steps || injection.rank < 0 ||
            injection.rank >= options.problem.workers || injection.index < 0 ||
            injection.index >= options.problem.layout.size())
            throw Error("--inject names step " + std::to_string(injection.step) + ", rank " +
                        std::to_string(injection.rank) + ", coordinate " + std::to_string(injection.index) +
                        "; there are steps 1 to " + std::to_string(options.steps) + ", ranks 0 to " +
                        std::to_string(options.problem.workers - 1) + ", coordinates 0 to " +
                        std::to_string(options.problem.layout.size() - 1));
}

} // namespace

void record(const std::filesystem::path& path, const RecordOptions& options) {
    check(options);
    check_room(path, options.problem.workers, options.problem.layout.size(), options.steps);
    const TraceHead head = make_head(options);
    const Vector<float> initial =
        Eigen::Map<const Vector<float>>(head.initial_parameters.data(), options.problem.layout.size());
    Run<float> run(options.problem, problem::DensitySchedule::recorded(head.density), initial);
    TraceWriter writer(path, head, options.intermediates, options.replicas);
    for (Index step = 1; step <= options.steps; ++step) {
        options.progress(step, options.steps);
        const PerRank<float> gradients = make_gradients(options, step);
        try {
            const auto results =
                run.step(gradients, head.learning_rate[static_cast<std::size_t>(step - 1)]);
            writer.write_step(gradients, results);
        } catch (const reference::RefusedStep&) {
            writer.write_step(gradients, run.unchanged());
        } catch (const reference::Halted& halted) {
            throw Error(path.string() + ": not written: " + halted.what() + " (choose other settings)");
        }
    }
    writer.finish();
}

} // namespace scape::verify
