// How the settings that are no plain numbers or names are written in the line of a case.
#pragma once

#include <string>
#include <vector>

#include <truestep/properties/scape/case.hpp>

namespace truestep::properties::scape {

// Each is a text without commas. Parsing throws truestep::Error.
[[nodiscard]] std::string tensors_text(const std::vector<problem::Tensor>& tensors);
[[nodiscard]] std::vector<problem::Tensor> parse_tensors(const std::string& text);
[[nodiscard]] std::string groups_text(const problem::Groups& groups);
[[nodiscard]] problem::Groups parse_groups(const std::string& text);
[[nodiscard]] std::string script_text(const std::vector<Operation>& script);
[[nodiscard]] std::vector<Operation> parse_script(const std::string& text);
[[nodiscard]] std::string damage_text(const Damage& damage);
[[nodiscard]] Damage parse_damage(const std::string& text);

} // namespace truestep::properties::scape
