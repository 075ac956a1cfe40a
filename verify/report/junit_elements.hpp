#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

/// The common parts of JUnit files, whatever the test cases are.
namespace truestep::report::junit {

/// An attribute `name="value"`. An XML reader would turn its line ends into spaces, so they are
/// escaped.
[[nodiscard]] std::string attribute(const std::string& name, const std::string& value);

/// An element of a case that did not pass, such as <failure>. Jenkins shows the message and the text,
/// GitLab the text alone, so the text begins with the message. A type may be empty.
[[nodiscard]] std::string outcome(const std::string& element, const std::string& message,
                                  const std::string& type = {}, const std::string& details = {});

/// The test cases of a file.
class Cases {
  public:
    /// Around an outcome, or empty. GitLab keeps one of the cases whose names are equal, so the second
    /// and later ones get a number.
    [[nodiscard]] std::string element(const std::string& class_name, const std::string& name,
                                      double seconds, const std::string& inside = {});

  private:
    std::map<std::pair<std::string, std::string>, std::size_t> seen_{};
};

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
