#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <scape/problem/error.hpp>
#include <scape/verify/run.hpp>

#include "problem.hpp"
#include "values.hpp"

struct scape_reference {
    scape::problem::Problem problem;
    scape::verify::Run<float> run;
    scape::verify::StepResults<float> results{}; ///< of the last step
    std::vector<std::uint8_t> bits{};            ///< of the mask that was looked at last
};

namespace scape::abi {

namespace {

using Floats = verify::Vector<float>;
using verify::Result;

Floats vector_of(std::span<const scape_values> given, problem::Index size, const std::string& what) {
    std::vector<float> room;
    const auto values = floats(given, size, room, what);
    return Eigen::Map<const Floats>(values.data(), size);
}

std::unique_ptr<scape_reference> make(const scape_problem& problem,
                                      std::span<const scape_values> parameters) {
    Floats start = vector_of(parameters, problem.problem.layout.size(), "parameters");
    auto made = std::make_unique<scape_reference>(
        scape_reference{problem.problem, {problem.problem, problem.settings.density, std::move(start)}});
    made->results = made->run.unchanged();
    return made;
}

void step(scape_reference& reference, std::span<const scape_values> gradients, double learning_rate) {
    verify::PerRank<float> all;
    for (const scape_values& gradient : gradients)
        all.push_back(vector_of({&gradient, 1}, reference.problem.layout.size(),
                                "gradient of rank " + std::to_string(all.size())));
    reference.results = reference.run.step(all, learning_rate);
}

Result result_of(std::int32_t what) {
    switch (what) {
    case SCAPE_PARAMETERS:
        return Result::parameters;
    case SCAPE_FIRST_MOMENT:
        return Result::first_moment;
    case SCAPE_RESIDUAL:
        return Result::residual;
    case SCAPE_MASK:
        return Result::mask;
    case SCAPE_NEXT_MASK:
        return Result::next_mask;
    case SCAPE_LOCAL:
        return Result::local;
    case SCAPE_EXCHANGED:
        return Result::exchanged;
    case SCAPE_RECONSTRUCTED:
        return Result::reconstructed;
    default:
        throw Error("view: there is no " + std::to_string(what) +
                    "; give SCAPE_PARAMETERS (0) to SCAPE_RECONSTRUCTED (7)");
    }
}

scape_values look(scape_reference& reference, Result what, std::int32_t rank) {
    if (rank < 0 || rank >= reference.problem.workers)
        throw Error("view: rank is " + std::to_string(rank) + "; there are 0 to " +
                    std::to_string(reference.problem.workers - 1));
    if (what == Result::mask || what == Result::next_mask) {
        reference.bits = verify::to_bits(reference.results.mask_of(what), reference.problem.layout.size());
        return view(std::span<const std::uint8_t>(reference.bits));
    }
    const Floats* values = reference.results.values(what, rank);
    if (values == nullptr)
        throw Error("view: there is no " + std::string(verify::kind_of(what).name) + " of " +
                    std::string(name(reference.problem.algorithm)) +
                    " here; what is between the phases is there after a step, and of scape alone");
    return view(std::span<const float>(values->data(), static_cast<std::size_t>(values->size())));
}

} // namespace
} // namespace scape::abi

using scape::abi::guarded;
using scape::abi::need;

scape_status scape_reference_create(const scape_problem* problem, const scape_values* parameters,
                                    size_t count, scape_reference** reference) {
    return guarded([&] {
        need(problem, "problem");
        need(reference, "reference");
        *reference =
            scape::abi::make(*problem, scape::abi::pieces(parameters, count, "parameters")).release();
    });
}

void scape_reference_destroy(scape_reference* reference) {
    delete reference;
}

scape_status scape_reference_step(scape_reference* reference, const scape_values* gradients, size_t workers,
                                  double learning_rate) {
    return guarded([&] {
        need(reference, "reference");
        scape::abi::step(*reference, scape::abi::pieces(gradients, workers, "gradients"), learning_rate);
    });
}

scape_status scape_reference_view(scape_reference* reference, int32_t what, int32_t rank,
                                  scape_values* view) {
    return guarded([&] {
        need(reference, "reference");
        need(view, "view");
        *view = scape::abi::look(*reference, scape::abi::result_of(what), rank);
    });
}
