// A run of `check`: its settings, and what it does with them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <truestep/gate/exit_status.hpp>
#include <truestep/gate/processes.hpp>
#include <truestep/gate/results.hpp>
#include <truestep/gate/search.hpp>
#include <truestep/gate/terminal.hpp>

#include "failure_groups.hpp"
#include "progress_estimate.hpp"

namespace truestep::gate {

/// The settings of `check` on the command line.
struct CheckSettings {
    std::string system;
    std::string communicator = "in_process";
    std::vector<std::string> implementations;
    std::optional<int> planted;
    std::optional<std::string> program; ///< the command line of the program
    Overrides overrides;                ///< the given settings of cases
    std::vector<std::string> properties;
    std::vector<std::string> without;
    bool matrix_only = false;
    bool thorough = false;
    bool converge = false;
    int pairs = Training{}.pairs;
    std::string list; ///< "true", or "edges"
    bool brief = false;
    bool verbose = false;
    bool must_finish = false;
    std::string level;
    std::optional<std::string> one_case;
    int cases = 0;
    std::uint64_t seed = 1;
    Schedules schedules;
    double time_budget = 0.0;
    double timeout = 60.0;
    double case_timeout = 0.0; ///< 0: three times `timeout`, so that the silent rank can be named first
    int jobs = usual_processes();
    std::string save;
    std::string json;
    std::string report;
};

/// Whether a setting of the system's cases is given by --set instead of its own option, so that help fits
/// on a page: only the first of many settings are options.
[[nodiscard]] bool goes_by_set(const System& system, const Override& pin);

[[nodiscard]] std::string level_of(const Implementation& implementation);

/// One run of the gate over the settings, the same on all ranks.
class Check {
  public:
    /// `invocation`: the program, its subcommand and system, with which the printed commands begin.
    Check(const CheckSettings& settings, const std::vector<System>& systems,
          std::shared_ptr<const Group> group, const std::vector<std::string>& arguments,
          std::string invocation);
    int run();

  private:
    void trust_itself() const;
    void check_settings() const;
    void check_one_case();
    void check_that_results_can_be_written() const;
    [[nodiscard]] std::size_t implementation_count() const;
    void choose_implementations();
    void check_program() const;
    [[nodiscard]] std::shared_ptr<const Implementation> program() const;
    void choose_pins();
    void choose_what_is_left_out();
    void print_list() const;
    [[nodiscard]] int most_workers() const;
    void keep_to_what_it_takes(const Implementation& implementation, SearchOptions& options) const;
    [[nodiscard]] Unsupported unsupported(const Implementation& implementation) const;

    // The commands to repeat things.
    [[nodiscard]] std::string chosen(const Implementation& implementation) const;
    [[nodiscard]] std::string command(const Implementation& implementation) const;
    [[nodiscard]] std::string narrowed(const SearchOptions& options) const;
    [[nodiscard]] std::string command(const Implementation& implementation, const Property& property,
                                      const Line& line) const;
    [[nodiscard]] std::string command(const Implementation& implementation, const Property& property,
                                      const Counterexample& found) const;

    // The searches.
    [[nodiscard]] int likenesses(const Implementation& implementation) const;
    [[nodiscard]] SearchOptions options_for(const Implementation& implementation, const Property& property,
                                            int usual, int thorough);
    /// Queues a search. The calls of `told` come in the order in which the searches were queued.
    void search_later(const Implementation& implementation, const Property& property,
                      const SearchOptions& options, const std::string& with,
                      std::function<void(const SearchResult&)> told);
    void tell_later(std::function<void()> told);
    void show_progress();
    nlohmann::ordered_json failure(const Implementation& implementation, const Property& property,
                                   const SearchResult& result, const std::string& with);
    void add_failure(const std::string& text);
    [[nodiscard]] double case_seconds() const;
    [[nodiscard]] std::string source(const Implementation& implementation) const;
    [[nodiscard]] bool has_matrix(const Implementation& implementation) const;
    void run_matrix();
    void run_row(const Implementation& implementation, const Overrides& overrides);
    [[nodiscard]] std::vector<const Property*> chosen_properties() const;
    void run_properties();
    void run_property(const Implementation& implementation, const Property& property);
    void add_property(const Implementation& implementation, const Property& property,
                      const SearchResult& result, const Verdict& verdict, const std::string& with,
                      const nlohmann::ordered_json& failed);
    void run_one_case();
    int print_edges();
    [[nodiscard]] int train() const;
    int finish();

    const CheckSettings& settings_;
    const std::vector<System>& systems_;
    const System& system_;
    const std::vector<std::string>& arguments_;
    std::string invocation_;
    std::shared_ptr<const Group> group_;
    Watch watch_;
    Progress progress_;
    Implementations chosen_;
    Overrides pins_;
    bool workers_by_default_ = false;
    Unsupported without_;
    std::optional<Line> one_case_;
    Results results_;
    std::vector<Piece> pieces_;
    bool cut_short_ = false; ///< by the time budget
    ProgressEstimate pace_;
    int failures_ = 0;
    FailureGroups causes_;
};

} // namespace truestep::gate
