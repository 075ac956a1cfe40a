#include "generators.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace scape::properties {

namespace {

using problem::BiasCorrection;
using problem::PartitionRule;
using problem::Tensor;
using verify::DataClass;

/// Small ones, and those around the edges of words and blocks.
rc::Gen<Index> tensor_size() {
    return one_of<Index>(
        {1, 2, 3, 0, 4, 5, 7, 8, 9, 10, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257});
}

rc::Gen<std::vector<Tensor>> tensors() {
    const auto tensor = rc::gen::build<Tensor>(
        rc::gen::set(&Tensor::size, tensor_size()),
        rc::gen::set(&Tensor::always_dense, one_of<bool>({false, false, false, true})));
    return rc::gen::map(rc::gen::mapcat(one_of<std::size_t>({1, 2, 3, 4}),
                                        [tensor](std::size_t count) {
                                            return rc::gen::container<std::vector<Tensor>>(count, tensor);
                                        }),
                        [](std::vector<Tensor> result) {
                            for (std::size_t place = 0; place < result.size(); ++place)
                                result[place].name = std::string(1, static_cast<char>('a' + place));
                            // A model has at least one parameter.
                            result.front().size = std::max<Index>(result.front().size, 1);
                            return result;
                        });
}

rc::Gen<Case> case_with(rc::Gen<Betas> betas, rc::Gen<double> clip_norm, rc::Gen<DataClass> data) {
    return rc::gen::build<Case>(
        rc::gen::set(&Case::tensors, tensors()),
        rc::gen::set(&Case::workers, one_of<int>({1, 2, 3, 4, 5, 7, 8})),
        rc::gen::set(&Case::partition,
                     one_of<PartitionRule>({PartitionRule::by_shard, PartitionRule::by_tensor})),
        rc::gen::set(&Case::owners_in_turn, one_of<bool>({false, false, true})),
        rc::gen::set(&Case::density, one_of<double>({1.0, 0.5, 0.1, 0.01, 0.001})),
        rc::gen::set(&Case::warm_up, one_of<Index>({0, 1, 2, 3})),
        rc::gen::set(&Case::betas, std::move(betas)),
        rc::gen::set(
            &Case::bias_correction,
            one_of<BiasCorrection>({BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum})),
        rc::gen::set(&Case::weight_decay, one_of<double>({0.0, 0.1})),
        rc::gen::set(&Case::clip_norm, std::move(clip_norm)), rc::gen::set(&Case::data, std::move(data)),
        rc::gen::set(&Case::seed, one_of<std::uint64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})),
        rc::gen::set(&Case::steps, one_of<Index>({1, 2, 3, 4, 5})));
}

rc::Gen<Betas> any_betas() {
    return one_of<Betas>({{0.5, 0.75}, {0.9, 0.95}, {0.9, 0.999}, {0.0, 0.0}, {0.0, 0.95}, {0.9, 0.0}});
}

rc::Gen<DataClass> any_data() {
    return one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::ties, DataClass::sparse,
                              DataClass::subnormal, DataClass::wide});
}

const char* name(DataClass data) {
    switch (data) {
    case DataClass::normal:
        return "normal";
    case DataClass::dyadic:
        return "dyadic";
    case DataClass::ties:
        return "ties";
    case DataClass::sparse:
        return "sparse";
    case DataClass::subnormal:
        return "subnormal";
    case DataClass::wide:
        return "wide";
    }
    return "?";
}

} // namespace

Index Case::size() const {
    Index sum = 0;
    for (const Tensor& tensor : tensors)
        sum += tensor.size;
    return sum;
}

std::ostream& operator<<(std::ostream& stream, const Case& run) {
    stream << "tensors";
    for (const Tensor& tensor : run.tensors)
        stream << ' ' << tensor.name << ':' << tensor.size << (tensor.always_dense ? ":dense" : "");
    return stream << ", workers " << run.workers << ", partition " << problem::name(run.partition)
                  << (run.owners_in_turn ? " with owners in turn" : "") << ", density " << run.density
                  << " after " << run.warm_up << " steps, betas " << run.betas.first << ' '
                  << run.betas.second << ", bias_correction " << problem::name(run.bias_correction)
                  << ", weight_decay " << run.weight_decay << ", clip_norm " << run.clip_norm << ", data "
                  << name(run.data) << ", seed " << run.seed << ", steps " << run.steps;
}

rc::Gen<Case> any_case() {
    return case_with(any_betas(), one_of<double>({0.0, 0.01, 1.0, 1e6}), any_data());
}

rc::Gen<Case> unclipped_case() {
    return case_with(any_betas(), rc::gen::just(0.0), any_data());
}

rc::Gen<Case> exact_case() {
    return case_with(one_of<Betas>({{0.5, 0.75}, {0.75, 0.5}, {0.0, 0.0}, {0.5, 0.0}}), rc::gen::just(0.0),
                     rc::gen::just(DataClass::dyadic));
}

problem::Problem problem_of(const Case& run) {
    problem::HyperParameters settings;
    settings.beta1 = run.betas.first;
    settings.beta2 = run.betas.second;
    settings.weight_decay = run.weight_decay;
    settings.clip_norm = run.clip_norm;
    settings.bias_correction = run.bias_correction;
    auto problem = problem::make_problem(problem::Algorithm::scape, run.workers,
                                         problem::Layout(run.tensors), run.partition, settings);
    if (run.owners_in_turn)
        for (std::size_t number = 0; number < problem.segments.size(); ++number)
            problem.segments[number].owner =
                static_cast<int>(number % static_cast<std::size_t>(run.workers));
    return problem;
}

problem::DensitySchedule schedule_of(const Case& run) {
    return problem::DensitySchedule::geometric(1.0, run.density, run.warm_up);
}

Vector<float> parameters_of(const Case& run) {
    Vector<float> w(run.size());
    for (Index index = 0; index < w.size(); ++index)
        w[index] = verify::initial_parameter(run.data, run.seed, index);
    return w;
}

PerRank<float> gradients_of(const Case& run, Index step) {
    const float scale = run.data == DataClass::dyadic ? static_cast<float>(run.workers) : 1.0F;
    PerRank<float> g(static_cast<std::size_t>(run.workers), Vector<float>(run.size()));
    for (int rank = 0; rank < run.workers; ++rank)
        for (Index index = 0; index < run.size(); ++index)
            g[static_cast<std::size_t>(rank)][index] =
                scale * verify::gradient_value(run.data, run.seed, rank, step, index);
    return g;
}

reference::Scape<float> optimizer_of(const Case& run) {
    return {problem_of(run), schedule_of(run), parameters_of(run)};
}

void take_steps(reference::Scape<float>& optimizer, const Case& run, Index last) {
    while (optimizer.state.step < last)
        optimizer.step(gradients_of(run, optimizer.state.step + 1), learning_rate);
}

Coordinates complement(const Coordinates& S, Index size) {
    Coordinates result;
    for (Index index = 0; index < size; ++index)
        if (!std::binary_search(S.begin(), S.end(), index))
            result.push_back(index);
    return result;
}

void classify(const Case& run) {
    const bool divides = run.workers == 1 || run.workers == 2 || run.workers == 4 || run.workers == 8;
    RC_CLASSIFY(run.workers > 1, "several ranks");
    RC_CLASSIFY(!divides, "no power of two");
    RC_CLASSIFY(run.density < 1.0, "density below 1");
}

} // namespace scape::properties
