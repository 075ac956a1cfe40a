#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <truestep/properties/scape/property.hpp>

// What the families of properties share.

namespace truestep::properties::scape {

[[nodiscard]] std::vector<Property> conservation_properties();
[[nodiscard]] std::vector<Property> mask_properties();
[[nodiscard]] std::vector<Property> delay_properties();
[[nodiscard]] std::vector<Property> dense_properties();
[[nodiscard]] std::vector<Property> symmetry_properties();
[[nodiscard]] std::vector<Property> traffic_properties();
[[nodiscard]] std::vector<Property> update_properties();
[[nodiscard]] std::vector<Property> refusal_properties();
[[nodiscard]] std::vector<Property> start_properties();
[[nodiscard]] std::vector<Property> restart_properties();
[[nodiscard]] std::vector<Property> damage_properties();
[[nodiscard]] std::vector<Property> norm_properties();
[[nodiscard]] std::vector<Property> payload_properties();
[[nodiscard]] std::vector<Property> overflow_properties();
[[nodiscard]] std::vector<Property> parts_properties();
[[nodiscard]] std::vector<Property> fault_properties();
[[nodiscard]] std::vector<Property> machine_properties();
[[nodiscard]] std::vector<Property> reference_properties();

/// What a rank showed before an action: at first the initial parameters, and zeros.
[[nodiscard]] const View& before(const Ran& ran, std::size_t action, int rank);

[[nodiscard]] bool selected(const std::vector<std::uint8_t>& mask, Index index);

/// Section 4.2 in the arithmetic of section 5.
[[nodiscard]] float local(const Case& run, float moment, float gradient, float residual);
/// What c_r of a rank was in a step, on its mask.
[[nodiscard]] float local_of(const Case& run, const Ran& ran, std::size_t step, int rank, Index index);
/// Section 21: the greatest exponent of any c_r on a step's mask, or none of it; and E of that step.
constexpr int no_exponent = -127;
[[nodiscard]] int greatest_exponent(const Case& run, const Ran& ran, std::size_t step);
[[nodiscard]] int scale_of(const Case& run, const Ran& ran, std::size_t step);

[[nodiscard]] std::uint32_t bits_of(float value);

/// Tags it with how its gradients come.
void classify_parts(Trial& trial);

/// Tags a case with what decides whether it is a trivial one.
void classify(Trial& trial);

/// Tags a case with the rarer kinds of a world as wide as users have it; of its script.
void classify_world(Trial& trial);
void classify_script(Trial& trial);
/// And demands them.
void demand_world(std::map<std::string, int>& demands);
void demand_script(std::map<std::string, int>& demands);

/// The demand on a property's cases that go with classify().
[[nodiscard]] std::map<std::string, int> usual_demands();

/// Another group of so many ranks goes on from a checkpoint.
[[nodiscard]] Action restart_with(const Case& run, int workers, bool other_partition);
/// Step t with the gradients of so many ranks.
[[nodiscard]] Action step_with(const Case& run, int workers, Index t);

/// Every bit that two runs show of the same scenario.
void same_history(Trial& trial, const Scenario& scenario, const History& expected, const History& actual);

/// Values that a step has to refuse.
[[nodiscard]] float unacceptable(std::uint8_t what);

/// The first and the last of all one time in six each: what an implementation takes for "none" may be their
/// number.
[[nodiscard]] Index refused_coordinate(const Case& run);

/// Takes the steps of `good`, and again with `bad` before step `refused`: all ranks have to refuse it, of
/// what `told` looks at each one's words, and the rest has to be as if it had not been.
void refused_and_forgotten(Trial& trial, const Scenario& good, Index refused, Action bad,
                           const std::function<void(const std::string& who, const Outcome&)>& told);

/// Ways in which messages may come.
[[nodiscard]] distributed::Disturbance disturbance(std::uint8_t what);

/// For properties that speak of masks and residuals.
[[nodiscard]] std::string only_scape(const Implementation& implementation);

} // namespace truestep::properties::scape
