#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/gate/property.hpp>

#include "trial.hpp"

// Declarations that the families of MAPL's properties share.

namespace truestep::properties::mapl {

[[nodiscard]] std::vector<gate::Property> boundary_properties();
[[nodiscard]] std::vector<gate::Property> training_properties();
[[nodiscard]] std::vector<gate::Property> pipeline_properties();
[[nodiscard]] std::vector<gate::Property> input_properties();
[[nodiscard]] std::vector<gate::Property> quantization_properties();
[[nodiscard]] std::vector<gate::Property> replica_properties();
[[nodiscard]] std::vector<gate::Property> principal_properties();
[[nodiscard]] std::vector<gate::Property> fault_properties();

using Judge = void (*)(Trial&);
using Change = Case (*)(Case);
using Demands = gate::Demands<Case>;

[[nodiscard]] Case as_drawn(Case run);
[[nodiscard]] Case no_restart(Case run);
/// The case without codewords and with an fp32 payload.
[[nodiscard]] Case nothing_lost(Case run);

/// The case, of every third seed with micro-batches of unequal numbers of tokens, some of none.
[[nodiscard]] Case of_unequal_batches(Case run);

/// The pipelines that a property is about: one pipeline that is not trained, or also several replicas whose
/// stages are trained together.
enum class Replicas : std::uint8_t { one, any };

[[nodiscard]] gate::Property property(int number, const std::string& name, const std::string& says,
                                      Judge judge, const Demands& at_least = {}, Change change = as_drawn,
                                      Replicas replicas = Replicas::one);

/// All properties in the chapter's order.
[[nodiscard]] std::vector<gate::Property> properties();

} // namespace truestep::properties::mapl
