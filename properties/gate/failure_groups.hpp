// Groups failures that may have one cause.
#pragma once

#include <map>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <truestep/gate/property.hpp>

namespace truestep::gate {

/// Which failures may be the same bug, so that it is reported once.
class FailureGroups {
  public:
    /// Counts a failure of the property and names its cause. A difference from the reference has a place as
    /// its cause: phase and result. Other failures of the same implementation may follow from it, so they
    /// get the same cause.
    std::string of(const std::string& implementation, const Property& property, bool beside_the_reference,
                   const nlohmann::ordered_json& first) {
        std::string cause = place(property, first);
        if (beside_the_reference)
            root_.try_emplace(implementation, cause);
        else if (const auto root = root_.find(implementation); root != root_.end())
            cause = root->second;
        ++counts_[cause];
        ++counts_of_[{implementation, cause}];
        return cause;
    }

    /// How many failures of one implementation have this cause.
    [[nodiscard]] int count_of(const std::string& implementation, const std::string& cause) const {
        const auto found = counts_of_.find({implementation, cause});
        return found == counts_of_.end() ? 0 : found->second;
    }

    /// How many failures have this cause.
    [[nodiscard]] int count(const std::string& cause) const {
        const auto found = counts_.find(cause);
        return found == counts_.end() ? 0 : found->second;
    }

    /// One line for each cause that was seen more than once.
    [[nodiscard]] std::string more() const {
        std::string text;
        for (const auto& [cause, count] : counts_)
            if (count > 1)
                text += std::to_string(count - 1) + (count == 2 ? " more fails" : " more fail") +
                        ", perhaps with the same cause (" + cause + "); --report shows each.\n";
        return text;
    }

  private:
    static std::string place(const Property& property, const nlohmann::ordered_json& first) {
        const auto text = [&first](const char* key) {
            return first.is_object() && first.contains(key) ? first[key].get<std::string>() : std::string();
        };
        const std::string phase = text("phase");
        const std::string result = text("result");
        if (phase.empty())
            return "property " + property.name;
        return phase == result ? "first wrong: " + result : "first wrong: " + result + ", phase " + phase;
    }

    std::map<std::string, std::string> root_; ///< by implementation: the place where it first differed
    std::map<std::string, int> counts_;
    std::map<std::pair<std::string, std::string>, int> counts_of_;
};

} // namespace truestep::gate
