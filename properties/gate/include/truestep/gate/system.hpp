#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/learning.hpp>
#include <truestep/gate/programs.hpp>
#include <truestep/gate/property.hpp>
#include <truestep/problem/mistake.hpp>
#include <truestep/verify/traces.hpp>

namespace truestep::gate {

/// An option that holds cases to values.
struct Pin {
    std::string option; ///< "density", without the dashes
    std::string help;
    bool list = true; ///< several values with commas between; else one text
    /// Throws truestep::Error if that is no such value.
    std::function<void(const std::string&)> check = [](const std::string&) {};
};

using problem::Mistake;

/// Whose gradients a trace holds: of those that the gate has made up there is nothing to find out.
enum class Gradients { recorded, made_up };

/// Where a recorded run first parts from the reference.
struct Parted {
    problem::Index step = 0;
    std::optional<problem::Index> index = {}; ///< coordinate in the flat vector, where one is known
};

/// What is to train: `check --converge`.
struct Training {
    Implementations candidates;
    int pairs = 8; ///< of runs, of each candidate beside the base line
    int jobs = 0;  ///< processes at a time; 0: all in this one
    double run_seconds = 180.0;
    std::string json;
    std::string report;
    std::vector<std::string> arguments;
};

/// All that the gate has to be told of a system: docs/adding-a-system.md walks through one.
struct System {
    std::string name; ///< "scape"
    std::string says; ///< one sentence

    // Cases.
    /// The line as the system itself would write it. Throws truestep::Error for what is no case of it.
    std::function<Line(const Line&)> parsed;
    /// The greatest number of workers that comes in a case.
    std::function<int(const Line&)> most_workers;
    int fewest_workers = 1; ///< that a case can have
    std::vector<Pin> pins;  ///< "workers" is among them
    /// A drawn case, held to values.
    std::function<Line(const Line&, const Pins&)> pinned;
    /// Whether pins, or what was left out, decide how many cases are of a kind, so that too few of them are
    /// no fault of the property.
    std::function<bool(const std::string& kind, const Pins&, const LeftOut&)> decided;

    // The matrix: `reference_property` over every combination of the main settings.
    std::vector<std::string> settings; ///< whose columns the table has, "workers" first
    /// The option that holds cases to a setting's values, where it is called otherwise.
    std::map<std::string, std::string> options_of_settings{};
    std::string reference_property = "reference";
    std::function<std::vector<Pins>(const Implementation&, const Pins&)> rows;
    /// Larger cases that are tried in each row beside the drawn ones.
    std::function<std::vector<Line>(const Pins&)> standing = [](const Pins&) {
        return std::vector<Line>();
    };

    std::vector<Property> properties; ///< in the order in which they are told and tried

    /// A self-test, tried before anything else: wrong answers that the properties take for right. Any, and
    /// no verdict means anything.
    std::function<std::vector<std::string>()> unseen = [] { return std::vector<std::string>(); };

    // What is put to the test.
    std::function<Implementations(const std::shared_ptr<const Group>&)> implementations;
    /// A program in their place (docs/program-protocol.md). None: this system takes no programs.
    std::function<std::shared_ptr<const Implementation>(const ProgramSettings&,
                                                        const std::shared_ptr<const Group>&)>
        program;
    std::vector<Mistake> mistakes;
    /// The one with that mistake; 0 is the clean one. Throws truestep::Error if there is none.
    std::function<std::shared_ptr<const Implementation>(int number, const std::shared_ptr<const Group>&)>
        planted;
    /// Names of those that `planted` accuses of nothing, beside the clean one.
    std::vector<std::string> clean;

    /// How its candidates are trained. None: they are not.
    std::optional<Learning> learning;
    /// Trains with each candidate and with the reference, in pairs, and says whether it learns as much:
    /// what `check` ends with. training::with_training makes it of `learning`; none: nobody here can.
    std::function<int(const Training&)> train;

    verify::Traces traces; ///< a system may have none
    /// Which known mistakes make what a trace holds at the step at which it first parts from the reference:
    /// one line each.
    std::function<std::vector<std::string>(const std::filesystem::path& trace, const Parted& parted,
                                           Gradients gradients)>
        what_fits = [](const std::filesystem::path&, const Parted&, Gradients) {
            return std::vector<std::string>();
        };

    [[nodiscard]] std::string option_of(const std::string& setting) const;
    /// Throws truestep::Error that lists the names.
    [[nodiscard]] const Property& property(const std::string& named) const;
};

/// A system by its name. Throws truestep::Error that lists the names.
[[nodiscard]] const System& find_system(const std::vector<System>& systems, const std::string& name);

/// A case of this system, written as it would itself. Throws truestep::Error, which names the system if it
/// is a case of another one.
[[nodiscard]] Line parsed_case(const System& system, const std::vector<System>& all, const Line& line);

/// Why a property is not asked of an implementation, or "".
[[nodiscard]] std::string why_not(const Property& property, const Implementation& implementation,
                                  const LeftOut& left_out);

} // namespace truestep::gate
