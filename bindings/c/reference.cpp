// Provides C functions that step the reference of SCAPE or AdamS, and show its results.
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/verify/scape/run.hpp>

#include "problem.hpp"
#include "values.hpp"

struct truestep_reference {
    truestep::problem::Problem problem;
    truestep::verify::scape::Run<float> run;
    truestep::verify::scape::StepResults<float> results{}; ///< of the last step
    std::vector<std::uint8_t> bits{};                      ///< of the last mask that was read
};

namespace truestep::abi {

namespace {

using Floats = verify::scape::Vector<float>;
using verify::scape::Result;

Floats vector_of(std::span<const truestep_values> given, problem::Index size, const std::string& what) {
    std::vector<float> room;
    const auto values = floats(given, size, room, what);
    return Eigen::Map<const Floats>(values.data(), size);
}

std::unique_ptr<truestep_reference> make(const truestep_problem& problem,
                                         std::span<const truestep_values> parameters) {
    Floats start = vector_of(parameters, problem.problem.layout.size(), "parameters");
    auto made = std::make_unique<truestep_reference>(
        truestep_reference{problem.problem, {problem.problem, problem.settings.density, std::move(start)}});
    made->results = made->run.unchanged();
    return made;
}

void step(truestep_reference& reference, std::span<const truestep_values> gradients, double learning_rate) {
    check_rate(learning_rate);
    verify::scape::PerRank<float> all;
    for (const truestep_values& gradient : gradients)
        all.push_back(vector_of({&gradient, 1}, reference.problem.layout.size(),
                                "gradient of rank " + std::to_string(all.size())));
    reference.results = reference.run.step(all, learning_rate);
}

Result result_of(std::int32_t what) {
    // In the order of the numbers in truestep.h.
    constexpr std::array results{Result::parameters, Result::first_moment, Result::residual,
                                 Result::mask,       Result::next_mask,    Result::local,
                                 Result::exchanged,  Result::reconstructed};
    static_assert(TRUESTEP_PARAMETERS == 0 && TRUESTEP_RECONSTRUCTED + 1 == results.size());
    if (what < 0 || what > TRUESTEP_RECONSTRUCTED)
        throw Error("view: there is no " + std::to_string(what) +
                    "; give TRUESTEP_PARAMETERS (0) to TRUESTEP_RECONSTRUCTED (7)");
    return results[static_cast<std::size_t>(what)];
}

truestep_values look(truestep_reference& reference, Result what, std::int32_t rank) {
    if (rank < 0 || rank >= reference.problem.workers)
        throw Error("view: rank is " + std::to_string(rank) + "; there are 0 to " +
                    std::to_string(reference.problem.workers - 1));
    if (what == Result::mask || what == Result::next_mask) {
        reference.bits =
            verify::scape::to_bits(reference.results.mask_of(what), reference.problem.layout.size());
        return view(reference.bits);
    }
    const Floats* values = reference.results.values(what, rank);
    if (values == nullptr)
        throw Error("view: " + std::string(verify::scape::kind_of(what).name) + " of " +
                    std::string(name(reference.problem.algorithm)) +
                    " is not available; intermediate results exist after a step, and for scape only");
    return view(std::span<const float>(values->data(), static_cast<std::size_t>(values->size())));
}

} // namespace

extern "C" {

truestep_status truestep_reference_create(const truestep_problem* problem,
                                          const truestep_values* parameters, size_t count,
                                          truestep_reference** reference) {
    return guarded([&] {
        need(problem, "problem");
        need(reference, "reference");
        *reference = make(*problem, pieces(parameters, count, "parameters")).release();
    });
}

void truestep_reference_destroy(truestep_reference* reference) {
    delete reference;
}

truestep_status truestep_reference_step(truestep_reference* reference, const truestep_values* gradients,
                                        size_t workers, double learning_rate) {
    return guarded([&] {
        step(need(reference, "reference"), pieces(gradients, workers, "gradients"), learning_rate);
    });
}

truestep_status truestep_reference_view(truestep_reference* reference, int32_t what, int32_t rank,
                                        truestep_values* view) {
    return guarded([&] { need(view, "view") = look(need(reference, "reference"), result_of(what), rank); });
}

} // extern "C"

} // namespace truestep::abi
