#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <truestep/properties/scape/property.hpp>

// Functions that the families of SCAPE's properties share.

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

/// A rank's view before an action: at first the initial parameters, and zeros.
[[nodiscard]] const ObservedState& before(const RecordedRun& ran, std::size_t action, int rank);

/// Expects a mask of step t that has as many bits of each segment as it must.
void check_count(Trial& trial, const std::vector<std::uint8_t>& mask, Index t, int rank);
[[nodiscard]] bool selected(const std::vector<std::uint8_t>& mask, Index index);

/// Section 4.2 in the arithmetic of section 5.
[[nodiscard]] float local(const Case& run, float moment, float gradient, float residual);
/// c_r of a rank in a step, on its mask.
[[nodiscard]] float local_of(const Case& run, const RecordedRun& ran, std::size_t step, int rank,
                             Index index);
/// Section 21: the greatest exponent of any c_r on a step's mask, or none; and E of that step.
constexpr int no_exponent = -127;
[[nodiscard]] int greatest_exponent(const Case& run, const RecordedRun& ran, std::size_t step);
[[nodiscard]] int scale_of(const Case& run, const RecordedRun& ran, std::size_t step);

[[nodiscard]] std::uint32_t bits_of(float value);

/// The demands of nearly all properties, and more.
[[nodiscard]] Demands usual_demands(const Demands& more = {});

/// A restart with so many ranks, from a checkpoint.
[[nodiscard]] Action restart_with(const Case& run, int workers, bool other_partition);
/// Step t with the gradients of so many ranks.
[[nodiscard]] Action step_with(const Case& run, int workers, Index t);

/// Compares every bit that two runs of a scenario show.
void same_history(Trial& trial, const Scenario& scenario, const RunRecording& expected,
                  const RunRecording& actual);

/// A value that a step has to refuse.
[[nodiscard]] float unacceptable(std::uint8_t what);

/// The first and the last coordinate one time in six each, since an implementation may use such an index to
/// mean "none".
[[nodiscard]] Index refused_coordinate(const Case& run);

/// Takes the steps of `good`, and again with `bad` before step `refused`. All ranks must refuse it, with
/// texts that `told` checks, and the rest of the run must be as if it had not come.
void refused_and_forgotten(Trial& trial, const Scenario& good, Index refused, Action bad,
                           const std::function<void(const std::string& who, const Outcome&)>& told);

/// Ways in which messages are disturbed.
[[nodiscard]] distributed::Disturbance disturbance(std::uint8_t what);

/// Why a property of what ranks compare before they begin does not apply, or "".
[[nodiscard]] std::string cannot_differ(const Implementation& implementation);
/// Why a property of masks and residuals does not apply, or "".
[[nodiscard]] std::string only_scape(const Implementation& implementation);

} // namespace truestep::properties::scape
