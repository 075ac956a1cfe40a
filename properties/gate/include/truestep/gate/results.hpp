#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/gate/search.hpp>
#include <truestep/report/status.hpp>

// The time budget, the rows and the results of `check` and `planted`.

namespace truestep::gate {

/// The time budget of a run.
class Watch {
  public:
    /// `seconds` 0: no limit. `any` joins the verdicts of all ranks.
    Watch(double seconds, std::function<bool(bool)> any);

    /// Returns false when the time is over; the same on all ranks. Notes that the case `line` is run next,
    /// by `command`.
    [[nodiscard]] bool goes_on(const std::string& command, const std::string& line);
    [[nodiscard]] double seconds() const;
    [[nodiscard]] bool limited() const { return limit_ > 0.0; }

  private:
    using Clock = std::chrono::steady_clock;

    Clock::time_point begin_ = Clock::now();
    double limit_;
    std::function<bool(bool)> any_;
};

/// The result of a search.
struct Verdict {
    report::Status status = report::Status::untested;
    std::string reason;
};
[[nodiscard]] Verdict judge(const System& system, const Property& property, const SearchResult& result,
                            const SearchOptions& options);

/// Collects rows, prints them and writes them: docs/results.md.
class Results {
  public:
    explicit Results(const System& system) : system_(system) {}

    void add_row(nlohmann::ordered_json row) { rows_.push_back(std::move(row)); }
    void add_property(nlohmann::ordered_json row) { properties_.push_back(std::move(row)); }
    void add_planted(nlohmann::ordered_json row) { planted_.push_back(std::move(row)); }
    /// Adds the devices and libraries that an implementation runs on to the environment.
    void add_runs_on(const std::string& implementation, const std::string& text) {
        if (!text.empty())
            runs_on_[implementation + " runs on"] = text;
    }
    void add_failure(const std::string& text) { failures_ += text; }

    /// The tables, then the failures.
    [[nodiscard]] std::string text() const;
    [[nodiscard]] nlohmann::ordered_json document(const std::vector<std::string>& arguments,
                                                  std::uint64_t seed, double seconds) const;
    [[nodiscard]] int count(report::Status status) const;
    [[nodiscard]] const std::string& failures() const { return failures_; }
    /// Those that were added after the last call.
    [[nodiscard]] std::string new_failures() {
        return failures_.substr(std::exchange(failures_told_, failures_.size()));
    }
    [[nodiscard]] const nlohmann::ordered_json& rows() const { return rows_; }
    [[nodiscard]] const nlohmann::ordered_json& properties() const { return properties_; }
    [[nodiscard]] const nlohmann::ordered_json& planted() const { return planted_; }

  private:
    const System& system_;
    nlohmann::ordered_json runs_on_ = nlohmann::ordered_json::object();
    nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
    nlohmann::ordered_json properties_ = nlohmann::ordered_json::array();
    nlohmann::ordered_json planted_ = nlohmann::ordered_json::array();
    std::string failures_;
    std::size_t failures_told_ = 0;
};

/// `text` as one word of a shell's command line.
[[nodiscard]] std::string shell_word(const std::string& text);

} // namespace truestep::gate
