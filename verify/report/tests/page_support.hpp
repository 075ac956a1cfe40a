#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

// Results to show, and checks that apply to every page.

namespace truestep::report {

nlohmann::ordered_json lane(const std::string& name, const std::string& title, const std::string& kind,
                            const nlohmann::ordered_json& values, const nlohmann::ordered_json& expected);
/// Two ranks and lanes of every kind; rank 0's expected values are unknown.
nlohmann::ordered_json drawing();
nlohmann::ordered_json failure();
nlohmann::ordered_json row(const std::string& status = "PASSED", int workers = 2);
nlohmann::ordered_json property(const std::string& status = "PASSED");
nlohmann::ordered_json planted(bool caught = true);
nlohmann::ordered_json result(const std::vector<nlohmann::ordered_json>& rows,
                              const std::vector<nlohmann::ordered_json>& properties = {},
                              const std::vector<nlohmann::ordered_json>& bugs = {});

std::size_t count(std::string_view text, std::string_view part);
/// The part of the page between one section's begin and its end.
std::string section(const std::string& page, const std::string& id);
/// Checks that every opened tag is closed, in the right order, and that attributes have no open
/// quotes.
void expect_well_formed(const std::string& page);

} // namespace truestep::report
