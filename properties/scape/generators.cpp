#include "generators.hpp"

#include <algorithm>
#include <string>

namespace truestep::properties {

namespace {

using problem::BiasCorrection;
using problem::DataClass;
using problem::NormVersion;
using problem::PartitionRule;
using problem::Payload;
using problem::Tensor;

/// The first stand where shrinking leads; more ranks than that are seldom, as a run takes as many threads.
const std::vector<int> worker_counts{1, 2, 3, 4, 5, 7, 8, 2, 3, 4, 5, 7, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33};

/// Small ones, and those around the edges of words and blocks.
rc::Gen<Index> tensor_size() {
    return one_of<Index>(
        {1, 2, 3, 0, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129, 257, 1030});
}

rc::Gen<std::vector<Tensor>> tensors() {
    const auto tensor = rc::gen::build<Tensor>(
        rc::gen::set(&Tensor::size, tensor_size()),
        rc::gen::set(&Tensor::always_dense, one_of<bool>({false, false, false, true})));
    return rc::gen::map(rc::gen::mapcat(one_of<std::size_t>({1, 2, 3, 4, 1, 2, 3, 9}),
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

template <class Value>
rc::Gen<Value> number_below(Value end) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Value>(0, end));
}

struct Choices {
    std::vector<double> beta1;
    std::vector<double> beta2;
    std::vector<double> clip_norm;
    std::vector<DataClass> data;
};

/// The first byte, the last, or any.
rc::Gen<std::int64_t> damaged_byte() {
    return rc::gen::map(rc::gen::pair(one_of<int>({0, -1, 1}), number_below<std::int64_t>(40'320)),
                        [](std::pair<int, std::int64_t> drawn) {
                            return drawn.first > 0 ? drawn.second + 1 : drawn.first;
                        });
}

rc::Gen<Damage> damage() {
    using Kind = Damage::Kind;
    const auto all = rc::gen::build<Damage>(
        rc::gen::set(&Damage::kind, one_of<Kind>({Kind::bit, Kind::bit, Kind::bit, Kind::bit, Kind::shorter,
                                                  Kind::longer})),
        rc::gen::set(&Damage::file, number_below<int>(34)), rc::gen::set(&Damage::byte, damaged_byte()),
        rc::gen::set(&Damage::bit, number_below<int>(8)));
    return rc::gen::map(all, [](Damage drawn) {
        return drawn.kind == Kind::bit ? drawn : Damage{.kind = drawn.kind, .file = drawn.file};
    });
}

/// Who rounds a mean has to be who keeps what that takes.
Case with_owners_of_means(Case run) {
    run.owners_in_turn = run.owners_in_turn && !problem::rounds_mean(run.payload);
    return run;
}

/// Without b2*q^2 a coordinate that cancels has nothing but epsilon in its denominator, and the least ones
/// make a halt of it.
Case without_certain_halts(Case run) {
    run.epsilon = run.beta2 == 0.0 ? std::max(run.epsilon, 1e-8) : run.epsilon;
    return run;
}

rc::Gen<Case> case_with(const Choices& choices) {
    const auto all = rc::gen::build<Case>(
        rc::gen::set(&Case::workers, one_of(worker_counts)), rc::gen::set(&Case::tensors, tensors()),
        rc::gen::set(&Case::steps, one_of<Index>({1, 2, 3, 4, 5, 2, 3, 4, 5, 12})),
        rc::gen::set(&Case::groups,
                     one_of<problem::Groups>({{}, {}, {}, {2}, {3}, {3, 2, 1}, {1, 5}, {1}, {4}, {64}})),
        rc::gen::set(&Case::partition,
                     one_of<PartitionRule>({PartitionRule::by_shard, PartitionRule::by_tensor})),
        rc::gen::set(&Case::owners_in_turn, one_of<bool>({false, false, true})),
        rc::gen::set(&Case::density, one_of<double>({1.0, 0.5, 0.1, 0.01, 0.001, 0.99, 0.3})),
        rc::gen::set(&Case::schedule, one_of<DensityRule>({DensityRule::geometric, DensityRule::linear,
                                                           DensityRule::jumps})),
        rc::gen::set(&Case::start, one_of<double>({1.0, 1.0, 0.02})),
        rc::gen::set(&Case::rate, one_of<RateRule>({RateRule::constant, RateRule::warm_up,
                                                    RateRule::to_zero, RateRule::wild})),
        rc::gen::set(&Case::epsilon, one_of<double>({1e-8, 1e-8, 0x1p-149, 1.0, 1e10})),
        rc::gen::set(&Case::warm_up, one_of<Index>({0, 1, 2, 3})),
        rc::gen::set(&Case::beta1, one_of(choices.beta1)),
        rc::gen::set(&Case::beta2, one_of(choices.beta2)),
        rc::gen::set(
            &Case::bias_correction,
            one_of<BiasCorrection>({BiasCorrection::none, BiasCorrection::adam, BiasCorrection::momentum})),
        rc::gen::set(&Case::weight_decay, one_of<double>({0.0, 0.1})),
        rc::gen::set(&Case::clip_norm, one_of(choices.clip_norm)),
        rc::gen::set(&Case::norm, one_of<NormVersion>({NormVersion::tree, NormVersion::tree,
                                                       NormVersion::tree, NormVersion::ascending})),
        rc::gen::set(&Case::payload,
                     one_of<Payload>({Payload::fp32, Payload::fp32, Payload::fp32, Payload::bf16,
                                      Payload::e5m2, Payload::bf16_both, Payload::e5m2_both})),
        rc::gen::set(&Case::data, one_of(choices.data)),
        rc::gen::set(&Case::silent, one_of<int>({nobody, nobody, nobody, nobody, 0, 1})),
        rc::gen::set(&Case::seed, one_of<std::uint64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8, 9})),
        rc::gen::set(&Case::parts, one_of<int>({1, 1, 1, 2, 3, 8})),
        rc::gen::set(&Case::bucket_bytes, one_of<Index>({0, 0, 4, 16, 64, 4096})),
        rc::gen::set(&Case::cuts, one_of<CutRule>({CutRule::backward, CutRule::rebuilt, CutRule::wild})),
        rc::gen::set(&Case::chosen_rank, number_below<int>(33)),
        rc::gen::set(&Case::chosen_place, number_below<Index>(40'320)),
        rc::gen::set(&Case::other_workers, one_of(worker_counts)));
    return rc::gen::map(rc::gen::map(all, without_certain_halts), with_owners_of_means);
}

const std::vector<DataClass> all_data{DataClass::dyadic, DataClass::normal, DataClass::ties,
                                      DataClass::sparse, DataClass::zeros,  DataClass::subnormal,
                                      DataClass::wide,   DataClass::limit};
const std::vector<double> some_beta1{0.5, 0.9, 0.0, 0.999};
const std::vector<double> some_beta2{0.75, 0.95, 0.999, 0.0, 0.99999};

rc::Gen<Operation> operation() {
    const auto all = rc::gen::build<Operation>(
        rc::gen::set(&Operation::kind,
                     one_of<Operation::Kind>({Operation::Kind::step, Operation::Kind::step,
                                              Operation::Kind::step, Operation::Kind::inject,
                                              Operation::Kind::restart, Operation::Kind::restart,
                                              Operation::Kind::delay, Operation::Kind::undo})),
        rc::gen::set(&Operation::workers, one_of(worker_counts)),
        rc::gen::set(&Operation::rank, number_below<int>(33)),
        rc::gen::set(&Operation::what, number_below<std::uint8_t>(16)));
    // What the kind has no use for says nothing.
    return rc::gen::map(all, [](Operation drawn) {
        Operation result;
        result.kind = drawn.kind;
        if (drawn.kind == Operation::Kind::restart)
            result.workers = drawn.workers;
        if (drawn.kind == Operation::Kind::inject)
            result.rank = drawn.rank;
        if (drawn.kind == Operation::Kind::inject || drawn.kind == Operation::Kind::delay)
            result.what = drawn.what;
        return result;
    });
}

} // namespace

rc::Gen<Case> any_case() {
    return case_with({some_beta1, some_beta2, {0.0, 0.01, 1.0, 1e6}, all_data});
}

rc::Gen<Case> unclipped_case() {
    return case_with({some_beta1, some_beta2, {0.0}, all_data});
}

rc::Gen<Case> exact_case() {
    return case_with({{0.5, 0.75, 0.0}, {0.75, 0.5, 0.0}, {0.0}, {DataClass::dyadic}});
}

void needs_no_clipping(Case& run) {
    run.clip_norm = 0.0;
}

void needs_exactness(Case& run) {
    needs_no_clipping(run);
    run.data = DataClass::dyadic;
    run.payload = Payload::fp32; // or M has bits that no mean of whole multiples has
    run.parts = 1;
    // Bits that a sum may need grow with every step, and with the betas' own.
    constexpr Index most_steps = 6;
    run.steps = std::min(run.steps, most_steps);
    const auto few_bits = [](double beta) { return beta == 0.0 || beta == 0.5 || beta == 0.75; };
    run.beta1 = few_bits(run.beta1) ? run.beta1 : 0.5;
    run.beta2 = few_bits(run.beta2) ? run.beta2 : 0.75;
}

rc::Gen<Case> scripted_case() {
    const auto script = rc::gen::mapcat(one_of<std::size_t>({6, 8, 10, 12}), [](std::size_t count) {
        return rc::gen::resize(static_cast<int>(count),
                               rc::gen::container<std::vector<Operation>>(operation()));
    });
    return rc::gen::map(rc::gen::pair(any_case(), script),
                        [](std::pair<Case, std::vector<Operation>> drawn) {
                            drawn.first.steps = 1;
                            drawn.first.script = std::move(drawn.second);
                            if (drawn.first.script.empty())
                                drawn.first.script.push_back({});
                            return drawn.first;
                        });
}

rc::Gen<Case> damaged_case() {
    return rc::gen::map(rc::gen::pair(any_case(), damage()), [](std::pair<Case, Damage> drawn) {
        drawn.first.damage = drawn.second;
        return drawn.first;
    });
}

} // namespace truestep::properties
