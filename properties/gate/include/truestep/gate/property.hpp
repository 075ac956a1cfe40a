#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include <truestep/gate/drawing.hpp>
#include <truestep/gate/implementation.hpp>

namespace truestep::gate {

/// A case as one line of text without spaces, in its system's own words: all that the gate knows of it.
using Line = std::string;

/// How much was compared, for the table.
struct Counts {
    std::int64_t compared = 0;
    std::int64_t wrong = 0;
    double greatest_ulps = 0.0;
    double share_of_limit = 0.0;

    void add(const Counts& other);
};

/// What is known of a case in which a property does not hold.
class Finding {
  public:
    struct Size {
        std::int64_t elements = 0;
        int ranks = 0;
        std::int64_t steps = 0;
    };

    virtual ~Finding() = default;
    /// What does not hold, one line.
    [[nodiscard]] virtual std::string message() const = 0;
    /// The values around, in several lines that begin with spaces, or "".
    [[nodiscard]] virtual std::string details() const { return {}; }
    /// `first` of docs/results.md.
    [[nodiscard]] virtual nlohmann::ordered_json first() const { return nullptr; }
    /// After which step its trace holds what the reference does not; 0: a rule was broken, without a value
    /// to explain.
    [[nodiscard]] virtual std::int64_t parted_at() const {
        const nlohmann::ordered_json told = first();
        const bool has_values = told.is_object() && told.contains("phase") &&
                                !told["phase"].get_ref<const std::string&>().empty();
        return has_values ? told["step"].get<std::int64_t>() : 0;
    }
    /// What the page draws, if anything.
    [[nodiscard]] virtual std::optional<Drawing> drawing() const { return std::nullopt; }
    /// The same for docs/results.md, or null.
    [[nodiscard]] virtual nlohmann::ordered_json drawn() const {
        const std::optional<Drawing> picture = drawing();
        return picture ? drawing_json(*picture) : nlohmann::ordered_json();
    }
    [[nodiscard]] virtual Size size() const { return {}; }
    /// The run as a trace. False, and no file, if nothing of it can be told.
    virtual bool save(const std::filesystem::path& /*path*/, const std::string& /*source*/) const {
        return false;
    }
    /// What that trace does not show of the failure, " (...)", or "".
    [[nodiscard]] virtual std::string lacks(const std::filesystem::path& /*trace*/) const { return {}; }
};

/// So begins the message of a finding that is none of the property's: something failed before it was asked.
constexpr std::string_view could_not_judge = "it could not be judged: ";

/// So begins a kind of case of which the property says nothing, which showed only as it ran; behind it
/// stands why. A row of no other cases is SKIPPED for that reason.
constexpr std::string_view nothing_said = "says nothing: ";

/// What came of one case.
struct Judged {
    std::shared_ptr<const Finding> finding; ///< none: the property holds
    std::set<std::string> kinds;            ///< of case that it was
    Counts counts;
};

/// Values that cases are held to, by the name of their option: {"workers", {"2", "3"}}.
using Pins = std::map<std::string, std::vector<std::string>>;

/// What must always hold.
struct Property {
    int number = 0;   ///< in the chapter of its system; 0: the reference says so
    std::string name; ///< "mask.order": family.name
    std::string says; ///< one sentence
    std::function<rc::Gen<Line>()> cases;
    std::function<Judged(const Implementation&, const Line&)> judge;
    /// Kinds of cases that must not be rarer than so many of a hundred, or the property has seen too
    /// little.
    std::map<std::string, int> at_least;
    /// Why it says nothing about an implementation; empty where it does.
    std::function<std::string(const Implementation&)> skipped;
    /// The nearest case that it can judge, of an implementation that has left something out.
    std::function<Line(const Line&, const LeftOut&)> needed;
    /// Cases that are tried beside the drawn ones, such as larger ones, as large as it takes.
    std::function<std::vector<Line>(const Implementation&, const Pins&)> also =
        [](const Implementation&, const Pins&) { return std::vector<Line>(); };
};

} // namespace truestep::gate
