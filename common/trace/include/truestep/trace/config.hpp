#pragma once

#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/layout.hpp>

namespace truestep::trace {

/// A JSON object being read: every key must be known, wanted ones be there, values of the right kind.
class ObjectReader {
  public:
    /// `what` begins an error's line. The object outlives the reader.
    ObjectReader(const nlohmann::json& object, std::string what);

    const nlohmann::json& required(const std::string& key);
    double number(const std::string& key);
    double number_or(const std::string& key, double otherwise);
    problem::Index integer(const std::string& key);
    problem::Index integer_or(const std::string& key, problem::Index otherwise);
    std::string text(const std::string& key);
    std::string text_or(const std::string& key, const std::string& otherwise);
    bool truth(const std::string& key);
    const nlohmann::json& list(const std::string& key);

    /// A key that nobody asked for is most likely a misspelt setting.
    void finish() const;

  private:
    [[nodiscard]] Error wrong(const std::string& key, const std::string& wanted) const;

    const nlohmann::json& object_;
    std::string what_;
    std::set<std::string> known_;
};

/// Text that trusts nothing: no key twice, no number that a double cannot hold.
[[nodiscard]] nlohmann::json parse_json(const std::string& text, const std::string& what);

/// `tensors` of a config: [{name, size, always_dense}], and param_group where it is not 0.
[[nodiscard]] problem::Layout parse_layout(const nlohmann::json& list, const std::string& what);
[[nodiscard]] nlohmann::ordered_json layout_json(const problem::Layout& layout);

} // namespace truestep::trace
