#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

/// The common parts of JUnit files, whatever the test cases are.
namespace truestep::report::junit {

/// An attribute `name="value"`. An XML reader would turn its line ends into spaces, so they are
/// escaped.
[[nodiscard]] std::string attribute(const std::string& name, const std::string& value);
[[nodiscard]] std::string seconds_text(double seconds);

struct Counts {
    std::size_t tests = 0;
    std::size_t failures = 0;
    std::size_t errors = 0;
    std::size_t skipped = 0;
    double seconds = 0.0;

    void add(const Counts& other);
    [[nodiscard]] std::string attributes() const;
};

/// The element <properties>: commands, seeds and environments.
[[nodiscard]] std::string properties(const std::vector<nlohmann::ordered_json>& results);
[[nodiscard]] std::string document(const Counts& sum, const std::string& suites);

} // namespace truestep::report::junit
