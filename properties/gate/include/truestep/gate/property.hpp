// Properties, and what is found where one does not hold.
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
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include <truestep/gate/drawing.hpp>
#include <truestep/gate/implementation.hpp>
#include <truestep/gate/kind.hpp>

namespace truestep::gate {

/// A case as one line of text without spaces, in its system's own words. The gate knows no more of it.
using Line = std::string;

/// How much was compared, for the table.
struct Counts {
    std::int64_t compared = 0;
    std::int64_t wrong = 0;
    double greatest_ulps = 0.0;
    double share_of_limit = 0.0;

    void add(const Counts& other);
};

/// A case in which a property does not hold.
class Finding {
  public:
    struct Size {
        std::int64_t elements = 0;
        int ranks = 0;
        std::int64_t steps = 0;
    };

    virtual ~Finding() = default;
    /// The violation, in one line.
    [[nodiscard]] virtual std::string message() const = 0;
    /// The values around it, in several lines that begin with spaces, or "".
    [[nodiscard]] virtual std::string details() const { return {}; }
    /// `first` of docs/results.md.
    [[nodiscard]] virtual nlohmann::ordered_json first() const { return nullptr; }
    /// The step after which its trace first differs from the reference; 0: a rule was broken, without a
    /// value to explain.
    [[nodiscard]] virtual std::int64_t parted_at() const {
        const nlohmann::ordered_json told = first();
        const bool has_values = told.is_object() && told.contains("phase") &&
                                !told["phase"].get_ref<const std::string&>().empty();
        return has_values ? told["step"].get<std::int64_t>() : 0;
    }
    /// The drawing on the page, if any.
    [[nodiscard]] virtual std::optional<Drawing> drawing() const { return std::nullopt; }
    /// The drawing for docs/results.md, or null.
    [[nodiscard]] virtual nlohmann::ordered_json drawn() const {
        const std::optional<Drawing> picture = drawing();
        return picture ? drawing_json(*picture) : nlohmann::ordered_json();
    }
    [[nodiscard]] virtual Size size() const { return {}; }
    /// Saves the run as a trace. Returns false, without a file, if it cannot be recorded.
    virtual bool save(const std::filesystem::path& /*path*/, const std::string& /*source*/) const {
        return false;
    }
    /// The parts of the failure that the trace does not show, " (...)", or "".
    [[nodiscard]] virtual std::string lacks(const std::filesystem::path& /*trace*/) const { return {}; }
};

/// The parts of a finding that are made only when they are asked for.
struct FindingOnDemand {
    std::function<std::optional<Drawing>()> draw = [] { return std::nullopt; };
    std::function<bool(const std::filesystem::path& path, const std::string& source)> save =
        [](const auto&, const auto&) { return false; };
    std::int64_t parted_at = 0;
};

/// A finding whose texts are made with it.
class PhrasedFinding final : public Finding {
  public:
    PhrasedFinding(std::string message, std::string details, Size size, FindingOnDemand more = {})
        : message_(std::move(message)), details_(std::move(details)), size_(size), more_(std::move(more)) {}

    std::string message() const override { return message_; }
    std::string details() const override { return details_; }
    Size size() const override { return size_; }
    std::int64_t parted_at() const override { return more_.parted_at; }
    std::optional<Drawing> drawing() const override { return more_.draw(); }
    bool save(const std::filesystem::path& path, const std::string& source) const override {
        return more_.save(path, source);
    }

  private:
    std::string message_;
    std::string details_;
    Size size_;
    FindingOnDemand more_;
};

/// The beginning of a finding's message if something failed before the property could be judged.
constexpr std::string_view could_not_judge = "it could not be judged: ";

/// The beginning of a kind of case about which the property says nothing, if that showed only while it ran;
/// the reason follows. A row with only such cases is SKIPPED for that reason.
constexpr std::string_view nothing_said = "says nothing: ";

/// The judgement of one case.
struct CaseJudgement {
    std::shared_ptr<const Finding> finding; ///< none: the property holds
    std::set<std::string> kinds;            ///< the case's kinds
    Counts counts;
};

/// A judgement of a case of one system, with kinds of its list.
template <class Case>
struct JudgementOf : CaseJudgement {
    JudgementOf() = default;
    /// Begins with all kinds of the case that show without a run.
    explicit JudgementOf(const Case& run) {
        for (const ListedKind<Case>& one : Case::kinds)
            if (one.is != nullptr && one.is(run))
                kinds.insert(std::string(one.name));
    }
    void kind(bool is, Kind<Case> one) {
        if (is)
            kinds.insert(one.name());
    }
};

/// Values to which cases are pinned, by the name of their option: {"workers", {"2", "3"}}.
using Overrides = std::map<std::string, std::vector<std::string>>;

/// A statement that must hold in every case.
struct Property {
    int number = 0;   ///< in its system's chapter; 0: a comparison with the reference
    std::string name; ///< "mask.order": family.name
    std::string says; ///< one sentence
    /// Draws cases that an implementation that lacks features can be asked.
    std::function<rc::Gen<Line>(const Overrides&, const Unsupported&)> cases;
    std::function<CaseJudgement(const Implementation&, const Line&)> judge;
    /// The least percentage of cases of a kind; below it the property has been tried too little.
    std::map<std::string, int> at_least;
    /// Why it does not apply to an implementation; empty if it does.
    std::function<std::string(const Implementation&)> skipped;
    /// The nearest case that it can judge for an implementation that lacks features.
    std::function<Line(const Line&, const Unsupported&)> needed;
    /// Cases that are tried beside the drawn ones, such as larger ones, as large as it takes.
    std::function<std::vector<Line>(const Implementation&, const Overrides&)> also =
        [](const Implementation&, const Overrides&) { return std::vector<Line>(); };
};

/// The properties of all families by their number, those of number 0 last.
[[nodiscard]] std::vector<Property> by_number(const std::vector<std::vector<Property>>& families);

} // namespace truestep::gate
