// What the gate knows of a system.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/edges.hpp>
#include <truestep/gate/learning.hpp>
#include <truestep/gate/programs.hpp>
#include <truestep/gate/property.hpp>
#include <truestep/problem/known_bug.hpp>
#include <truestep/verify/traces.hpp>

namespace truestep::gate {

/// An option that pins cases to values.
struct Override {
    std::string option; ///< "density", without the dashes
    std::string help;
    bool list = true; ///< several values with commas between; else one text
    /// Throws truestep::Error if the value is invalid.
    std::function<void(const std::string&)> check = [](const std::string&) {};
};

using problem::KnownBug;

/// Whether a trace's gradients were recorded, or made up by the gate and so known already.
enum class Gradients { recorded, synthetic };

/// Where a recorded run first differs from the reference.
struct FirstDifference {
    problem::Index step = 0;
    std::optional<problem::Index> index = {}; ///< coordinate in the flat vector, if one is known
};

/// A training of implementations: `check --converge`.
struct Training {
    Implementations candidates;
    int pairs = 8; ///< of runs, each implementation with the base line
    int jobs = 0;  ///< processes at a time; 0: all in this one
    double run_seconds = 180.0;
    std::string json;
    std::string report;
    std::vector<std::string> arguments;
};

/// The description of a system: docs/adding-a-system.md walks through one.
struct System {
    std::string name; ///< "scape"
    std::string says; ///< one sentence

    // The cases.
    /// The line as the system itself would write it. Throws truestep::Error if it is not a case.
    std::function<Line(const Line&)> parsed;
    /// The greatest number of workers in a case.
    std::function<int(const Line&)> most_workers;
    int fewest_workers = 1;          ///< that a case can have
    std::vector<Override> overrides; ///< one of them is "workers"
    /// Whether pins or missing features determine how many cases are of a kind, so that too few of them are
    /// not the property's fault.
    std::function<bool(const std::string& kind, const Overrides&, const Unsupported&)> decided;

    // The matrix: `reference_property` over every combination of the main settings.
    std::vector<std::string> settings; ///< the table's columns, "workers" first
    /// The option that pins a setting, if its name differs from the setting's.
    std::map<std::string, std::string> options_of_settings{};
    std::string reference_property = "reference";
    std::function<std::vector<Overrides>(const Implementation&, const Overrides&)> rows;
    /// Larger cases that are tried in each row beside the drawn ones.
    std::function<std::vector<Line>(const Overrides&)> standing = [](const Overrides&) {
        return std::vector<Line>();
    };

    /// How large a case is where registered constants cut: `check --list=edges`.
    std::function<Extents(const Line&)> extents = [](const Line&) { return Extents(); };
    /// The settings that change the code behind edges: each constant has to meet each of their values.
    std::vector<std::string> set_at_edges{};
    /// Such a value: a word, or whether a number is the usual one.
    std::function<std::string(const Line&, const std::string& key)> value_at_edges;

    std::vector<Property> properties; ///< in the order in which they are tried and reported

    /// A self-test before anything else: the wrong answers that the properties accept. If there are any, no
    /// verdict means anything.
    std::function<std::vector<std::string>()> unseen = [] { return std::vector<std::string>(); };

    // What is tested.
    std::function<Implementations(const std::shared_ptr<const Group>&)> implementations;
    /// A program in their place (docs/program-protocol.md). None: this system takes no programs.
    std::function<std::shared_ptr<const Implementation>(const ProgramSettings&,
                                                        const std::shared_ptr<const Group>&)>
        program;
    std::vector<KnownBug> known_bugs;
    /// The implementation with that known bug; 0 is the clean one. Throws truestep::Error if there is none.
    std::function<std::shared_ptr<const Implementation>(int number, const std::shared_ptr<const Group>&)>
        planted;
    /// Names of implementations that `planted` must not accuse, beside the clean one.
    std::vector<std::string> clean;

    /// How its implementations are trained. None: they are not.
    std::optional<Learning> learning;
    /// Trains with each implementation and with the reference, in pairs, and says whether it learns as
    /// much; `check` ends with this. training::with_training makes it from `learning`; none: this program
    /// cannot train.
    std::function<int(const Training&)> train;

    verify::Traces traces; ///< a system may have none
    /// The known bugs that explain a trace at the step at which it first differs from the reference, one
    /// line each.
    std::function<std::vector<std::string>(const std::filesystem::path& trace,
                                           const FirstDifference& parted, Gradients gradients)>
        what_fits = [](const std::filesystem::path&, const FirstDifference&, Gradients) {
            return std::vector<std::string>();
        };

    [[nodiscard]] std::string option_of(const std::string& setting) const;
    /// Throws truestep::Error that lists the names.
    [[nodiscard]] const Property& property(const std::string& named) const;
};

/// The name of the implementation with that known bug of so many, or of the clean one for 0. Throws
/// truestep::Error if there is none.
[[nodiscard]] std::string name_of_planted(int number, std::size_t known_bugs);

/// The system of that name. Throws truestep::Error that lists the names.
[[nodiscard]] const System& find_system(const std::vector<System>& systems, const std::string& name);

/// A case of this system, written as the system itself would. Throws truestep::Error, which names the
/// system if it is a case of another one.
[[nodiscard]] Line parsed_case(const System& system, const std::vector<System>& all, const Line& line);

/// Why a property is not asked of an implementation, or "".
[[nodiscard]] std::string why_not(const Property& property, const Implementation& implementation,
                                  const Unsupported& unsupported);

} // namespace truestep::gate
