// Writes and parses a tiny two-step problem as text, makes its scenario, and compares its runs.
#include "tiny.hpp"

#include <bit>
#include <cstring>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::properties::scape::scope {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts{""};
    for (const char letter : text)
        if (letter == separator)
            parts.emplace_back();
        else
            parts.back() += letter;
    return parts;
}

template <class Real>
std::string list(const std::vector<Real>& numbers) {
    std::string result;
    for (const Real number : numbers)
        result += (result.empty() ? "" : ",") + shortest(number);
    return result;
}

template <class Real>
std::vector<Real> numbers_of(const std::string& text, std::size_t count) {
    std::vector<Real> result;
    for (const std::string& part : split(text, ',')) {
        const auto number = parse_number<Real>(part);
        if (!number)
            throw Error("problem: '" + part + "' is not a number");
        result.push_back(*number);
    }
    if (result.size() != count)
        throw Error("problem: '" + text + "' has " + std::to_string(result.size()) + " numbers; give " +
                    std::to_string(count));
    return result;
}

} // namespace

double density_for(int k) {
    return k == 1 ? 0.5 : k == 2 ? 0.75 : 1.0;
}

std::string text(const TinyProblem& problem) {
    std::string result = properties::scape::text(problem.settings) + "|" +
                         list(std::vector<double>(problem.densities.begin(), problem.densities.end())) +
                         "|" + list(problem.parameters);
    for (const Gradients& of_step : problem.gradients) {
        std::string ranks;
        for (const std::vector<float>& g : of_step)
            ranks += (ranks.empty() ? "" : "/") + list(g);
        result += "|" + ranks;
    }
    return result;
}

TinyProblem parse_tiny(const std::string& text) {
    const auto parts = split(text, '|');
    if (parts.size() != 3 + steps)
        throw Error("problem: write settings|densities|parameters|gradients of step 1|of step 2");
    TinyProblem result;
    result.settings = properties::scape::parse_case(parts[0]);
    const auto d = static_cast<std::size_t>(result.settings.size());
    const auto densities = numbers_of<double>(parts[1], result.densities.size());
    std::copy(densities.begin(), densities.end(), result.densities.begin());
    result.parameters = numbers_of<float>(parts[2], d);
    for (std::size_t step = 0; step < steps; ++step) {
        const auto ranks = split(parts[3 + step], '/');
        if (ranks.size() != static_cast<std::size_t>(result.settings.workers))
            throw Error("problem: give each rank's gradient, with / between");
        for (const std::string& rank : ranks)
            result.gradients[step].push_back(numbers_of<float>(rank, d));
    }
    return result;
}

Scenario two_steps(problem::Problem problem, std::vector<problem::Range> ranges, const Densities& densities,
                   std::vector<float> parameters, std::array<Gradients, steps> gradients) {
    Scenario scenario{{std::move(problem), std::move(ranges),
                       problem::DensitySchedule::recorded({densities.begin(), densities.end()}),
                       std::move(parameters)},
                      {}};
    for (Gradients& of_step : gradients) {
        properties::scape::Action action;
        action.gradients = std::move(of_step);
        action.learning_rate = 0x1p-8;
        scenario.actions.push_back(std::move(action));
    }
    return scenario;
}

Scenario scenario_of(const TinyProblem& problem) {
    auto whole = properties::scape::problem_of(problem.settings);
    auto ranges = problem::ranges(whole.layout, problem.settings.workers, problem.settings.partition);
    return two_steps(std::move(whole), std::move(ranges), problem.densities, problem.parameters,
                     problem.gradients);
}

namespace {

std::optional<Difference> of_values(const std::string& where, const std::vector<float>& expected,
                                    const std::vector<float>& actual) {
    if (expected.size() != actual.size())
        return Difference{-1, where + " has another size"};
    if (expected.empty() ||
        std::memcmp(expected.data(), actual.data(), expected.size() * sizeof(float)) == 0)
        return std::nullopt;
    std::size_t i = 0;
    while (std::bit_cast<std::uint32_t>(expected[i]) == std::bit_cast<std::uint32_t>(actual[i]))
        ++i;
    return Difference{static_cast<Index>(i), where + ": coordinate " + std::to_string(i) + " is " +
                                                 shortest(actual[i]) + ", the reference has " +
                                                 shortest(expected[i])};
}

std::optional<Difference> of_masks(const std::string& where, const std::vector<std::uint8_t>& expected,
                                   const std::vector<std::uint8_t>& actual) {
    if (expected.size() != actual.size())
        return Difference{-1, where + " has another size"};
    for (std::size_t byte = 0; byte < expected.size(); ++byte)
        if (const auto other = static_cast<unsigned>(expected[byte] ^ actual[byte]); other != 0) {
            const auto coordinate = static_cast<Index>(byte * 8) + std::countr_zero(other);
            return Difference{coordinate, where + ": the bit of coordinate " + std::to_string(coordinate) +
                                              " is not the reference's"};
        }
    return std::nullopt;
}

std::optional<Difference> of_told(const std::string& where,
                                  const properties::scape::ObservedState& expected,
                                  const properties::scape::ObservedState& actual) {
    if (!actual.told || !expected.told)
        return std::nullopt;
    const properties::scape::StepReport& a = *expected.told;
    const properties::scape::StepReport& b = *actual.told;
    if (a.step == b.step && a.selected == b.selected && a.kept == b.kept &&
        a.gradient_norm == b.gradient_norm && a.clip_factor == b.clip_factor)
        return std::nullopt;
    return Difference{-1, where + " tells of its step what is not the reference's"};
}

} // namespace

std::optional<Difference> difference(const RunRecording& expected, const RunRecording& actual) {
    if (!actual.error.empty())
        return Difference{-1, "the run ended before its end: " + actual.error};
    if (actual.after.size() != expected.after.size())
        return Difference{-1, "the run stopped after " + std::to_string(actual.after.size()) + " steps"};
    for (std::size_t step = 0; step < expected.after.size(); ++step)
        for (std::size_t rank = 0; rank < expected.after[step].views.size(); ++rank) {
            const std::string who = "step " + std::to_string(step + 1) + ", rank " + std::to_string(rank);
            const properties::scape::ObservedState& should = expected.after[step].views[rank];
            const properties::scape::ObservedState& is = actual.after[step].views.at(rank);
            if (const properties::scape::Outcome& outcome = actual.after[step].outcomes.at(rank);
                outcome.kind != properties::scape::Outcome::Kind::taken || is.step != should.step)
                return Difference{-1, who + ": the step was not taken: " + outcome.text};
            for (const auto& found : {of_masks(who + ", mask", should.mask, is.mask),
                                      of_values(who + ", residual", should.residual, is.residual),
                                      of_values(who + ", moment", should.moment, is.moment),
                                      of_values(who + ", parameters", should.parameters, is.parameters),
                                      of_told(who, should, is)})
                if (found)
                    return found;
        }
    for (std::size_t rank = 0; rank < expected.coming.size(); ++rank)
        if (auto found = of_masks("coming mask, rank " + std::to_string(rank), expected.coming[rank],
                                  actual.coming.at(rank)))
            return found;
    return std::nullopt;
}

} // namespace truestep::properties::scape::scope
