// Draws cases of SCAPE: any, unclipped, exact, scripted, or with a damaged checkpoint.
#include "generators.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "spec.hpp"

namespace truestep::properties::scape {

namespace {

using gate::from_to;
using problem::DataClass;
using problem::Payload;

/// Draws one of these values for a setting.
template <class Value>
void draw(gate::CaseSpec<Case>& cases, const std::string& key, Value Case::*member,
          std::vector<Value> values) {
    gate::Setting<Case>& setting = cases.setting(key);
    setting = std::move(setting).draws(one_of(std::move(values)), member);
}

/// The first byte, the last, or any.
rc::Gen<std::int64_t> damaged_byte() {
    return rc::gen::map(
        rc::gen::pair(rc::Gen<int>(one_of<int>({0, -1, 1})), from_to<std::int64_t>(0, 40'319)),
        [](std::pair<int, std::int64_t> drawn) {
            return drawn.first > 0 ? drawn.second + 1 : drawn.first;
        });
}

rc::Gen<Damage> damage() {
    using Kind = Damage::Kind;
    const auto all = rc::gen::build<Damage>(
        rc::gen::set(&Damage::kind, rc::Gen<Kind>(one_of<Kind>({Kind::bit, Kind::bit, Kind::bit, Kind::bit,
                                                                Kind::shorter, Kind::longer}))),
        rc::gen::set(&Damage::file, from_to<int>(0, 33)), rc::gen::set(&Damage::byte, damaged_byte()),
        rc::gen::set(&Damage::bit, from_to<int>(0, 7)));
    return rc::gen::map(all, [](Damage drawn) {
        return drawn.kind == Kind::bit ? drawn : Damage{.kind = drawn.kind, .file = drawn.file};
    });
}

rc::Gen<Operation> operation() {
    const auto all = rc::gen::build<Operation>(
        rc::gen::set(&Operation::kind,
                     rc::Gen<Operation::Kind>(one_of<Operation::Kind>(
                         {Operation::Kind::step, Operation::Kind::step, Operation::Kind::step,
                          Operation::Kind::inject, Operation::Kind::restart, Operation::Kind::restart,
                          Operation::Kind::delay, Operation::Kind::undo}))),
        rc::gen::set(&Operation::workers, rc::Gen<int>(one_of(worker_counts))),
        rc::gen::set(&Operation::rank, from_to<int>(0, 32)),
        rc::gen::set(&Operation::what, from_to<std::uint8_t>(0, 15)));
    // Leaves out values that this kind does not use.
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

/// A part of a gradient is a whole multiple of P/64 up to P/2, so of fp32's 24 bits 18 are left. Each step
/// adds the share (1 - beta1) of the gradient to what no mask has taken, and needs as many bits more as
/// beta1 has. The 1.0 leaves room for a property that adds P to one gradient, in one step more.
Index exact_steps(const Case& run) {
    const int bits = run.beta1 == 0.0 ? 0 : run.beta1 == 0.5 ? 1 : 2;
    constexpr Index most_steps = 6;
    Index steps = most_steps;
    for (; steps > 0; --steps) {
        const auto taken = static_cast<double>(steps + 1);
        const double ranks = run.workers;
        if (ranks * ranks * run.parts / 2.0 * ((1.0 - run.beta1) * taken + 1.0) <=
            std::ldexp(1.0, 18 - bits * static_cast<int>(taken)))
            break;
    }
    return steps;
}

} // namespace

rc::Gen<Case> any_case() {
    return spec().cases();
}

rc::Gen<Case> unclipped_case() {
    gate::CaseSpec<Case> cases = spec();
    draw<double>(cases, "clip", &Case::clip_norm, {0.0});
    return cases.cases();
}

rc::Gen<Case> exact_case() {
    gate::CaseSpec<Case> cases = spec();
    draw<double>(cases, "beta1", &Case::beta1, {0.5, 0.75, 0.0});
    draw<double>(cases, "beta2", &Case::beta2, {0.75, 0.5, 0.0});
    draw<double>(cases, "clip", &Case::clip_norm, {0.0});
    draw(cases, "data", &Case::data, {DataClass::dyadic});
    return cases.cases();
}

void needs_no_clipping(Case& run) {
    run.clip_norm = 0.0;
}

void needs_few_bits(Case& run) {
    while (run.beta1 > 0.0 && exact_steps(run) == 0)
        run.beta1 = run.beta1 == 0.75 ? 0.5 : 0.0;
    run.steps = std::min(run.steps, std::max<Index>(exact_steps(run), 1));
}

void needs_exactness(Case& run) {
    needs_no_clipping(run);
    run.data = DataClass::dyadic;
    run.payload = Payload::fp32; // or M has bits that no mean of whole multiples has
    run.parts = 1;
    const auto few_bits = [](double beta) { return beta == 0.0 || beta == 0.5 || beta == 0.75; };
    run.beta1 = few_bits(run.beta1) ? run.beta1 : 0.5;
    run.beta2 = few_bits(run.beta2) ? run.beta2 : 0.75;
    needs_few_bits(run);
}

rc::Gen<Case> scripted_case() {
    const auto script =
        rc::gen::mapcat(rc::Gen<std::size_t>(one_of<std::size_t>({6, 8, 10, 12})), [](std::size_t count) {
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

} // namespace truestep::properties::scape
