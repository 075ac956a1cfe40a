// Makes the result rows of `planted`: bugs skipped or not caught, and clean implementations.
#include "planted_rows.hpp"

#include <truestep/report/status.hpp>

namespace truestep::tool {

using nlohmann::ordered_json;

ordered_json skipped_row(int number, const std::string& known_bug,
                         const gate::Implementation& implementation, const std::string& command) {
    return {{"implementation", implementation.name()},
            {"communicator", implementation.communicator()},
            {"number", 0},
            {"property", "planted bug " + std::to_string(number)},
            {"says", known_bug + ": a property catches it."},
            {"cases", 0},
            {"classes", ordered_json::object()},
            {"seconds", 0.0},
            {"status", name(report::Status::skipped)},
            {"reason", implementation.unavailable()},
            {"command", command},
            {"failure", nullptr}};
}

ordered_json uncaught_row(int number, const std::string& known_bug) {
    return {{"number", number},
            {"name", known_bug},
            {"caught", false},
            {"property", ""},
            {"also", ordered_json::array()},
            {"cases", 0},
            {"elements", 0},
            {"ranks", 0},
            {"steps", 0},
            {"evaluations", 0},
            {"seconds", 0.0},
            {"command", ""},
            {"failure", nullptr}};
}

ordered_json clean_row(const gate::Implementation& implementation, const gate::Property& property,
                       const gate::SearchResult& result, const gate::Verdict& verdict,
                       const std::string& command) {
    return {{"implementation", implementation.name()},
            {"communicator", implementation.communicator()},
            {"number", property.number},
            {"property", property.name},
            {"says", property.says},
            {"cases", result.cases},
            {"classes", result.kinds.empty() ? ordered_json::object() : ordered_json(result.kinds)},
            {"seconds", result.seconds},
            {"status", name(verdict.status)},
            {"reason", verdict.reason},
            {"command", command},
            {"failure", result.counterexample ? gate::failure_json(*result.counterexample, "")
                                              : ordered_json(nullptr)}};
}

} // namespace truestep::tool
