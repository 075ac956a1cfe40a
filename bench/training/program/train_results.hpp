#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/training/results.hpp>

namespace truestep::training {

/// What `truestep train` has been asked for beside the plan.
struct TrainAsked {
    std::string text;
    std::vector<std::string> optimizers{"adams", "scape:0.1"};
    std::vector<std::size_t> steps{training::Plan().steps};
    std::vector<double> rates{training::Plan().learning_rate}; ///< of which each optimizer takes its best
    std::size_t seeds = 1;
    std::size_t base_seeds = 0; ///< at least `seeds`; 0: as many
    std::uint64_t first_seed = 1;
    double margin = 0.05;
    std::vector<std::string> curves; ///< files of earlier calls, in place of training
    std::string json;
    std::string report;
};

/// The runs of one call, and what they say: written after each run, so that what is there survives an end.
class TrainResults {
  public:
    TrainResults(const TrainAsked& asked, const training::Plan& plan, const training::Text& text,
                 const std::vector<std::string>& arguments);

    [[nodiscard]] const std::vector<training::Floor>& floors() const { return results_.levels.floors; }
    /// From here on runs are of so many steps.
    void begin(std::size_t steps);
    /// Written where `write` is called, which whoever trains does after each.
    void add(training::Curve curve);
    /// All runs of the base line are there.
    void fix_sigma();
    /// All runs of this candidate are there: its verdict, or nothing where one seed was asked for, of which
    /// there is none.
    [[nodiscard]] std::string judge(const std::string& candidate);
    /// No verdict is anything but SAME or BETTER.
    [[nodiscard]] bool good() const;
    void write() const;

  private:
    [[nodiscard]] std::string label(const std::string& optimizer) const;
    [[nodiscard]] std::vector<training::Curve> runs_of(const std::string& optimizer) const;
    /// Those of the base line that are the partners of these.
    [[nodiscard]] std::vector<training::Curve> partners(const std::vector<training::Curve>& runs) const;
    void map(const std::string& candidate, const training::Verdict& verdict);

    const TrainAsked& asked_;
    const training::Plan& plan_;
    const training::Text& text_;
    training::TrainingResults results_;
    std::size_t steps_ = 0;
};

/// In place of training: the runs of the files `asked.curves`, of which the first is one of the base line,
/// a verdict for each other optimizer at each number of steps, and what is written. True if no verdict is
/// anything but SAME and BETTER.
[[nodiscard]] bool judge_curves(TrainAsked asked, const training::Plan& plan, const training::Text& text,
                                const std::vector<std::string>& arguments);

} // namespace truestep::training
