#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <truestep/training/results.hpp>

namespace truestep::training {

/// The options of `truestep train` other than the plan.
struct TrainAsked {
    std::string text;
    std::vector<std::string> optimizers{"adams", "scape:0.1"};
    std::vector<std::size_t> steps{training::Plan().steps};
    std::vector<double> rates{training::Plan().learning_rate}; ///< each optimizer takes its best
    std::size_t seeds = 1;
    std::size_t base_seeds = 0; ///< at least `seeds`; 0: as many
    std::uint64_t first_seed = 1;
    double margin = 0.05;
    std::vector<std::string> curves; ///< files of earlier calls, in place of training
    std::string json;
    std::string benchmark_out;
    std::string report;
};

/// The results of one call, written after each run, so that they survive an early end.
class TrainResults {
  public:
    TrainResults(const TrainAsked& asked, const training::Plan& plan, const training::Text& text,
                 const std::vector<std::string>& arguments);

    [[nodiscard]] const std::vector<training::Floor>& floors() const { return results_.levels.floors; }
    /// Further runs have this many steps.
    void begin(std::size_t steps);
    /// write() writes it; the training calls that after each run.
    void add(training::Curve curve);
    /// Called when all runs of the base line are there.
    void fix_sigma();
    /// Called when all runs of this candidate are there. Returns its verdict, or "" for a single
    /// seed, which allows none.
    [[nodiscard]] std::string judge(const std::string& candidate);
    /// Whether all verdicts are SAME or BETTER.
    [[nodiscard]] bool good() const;
    void write() const;

  private:
    [[nodiscard]] std::string label(const std::string& optimizer) const;
    [[nodiscard]] std::vector<training::Curve> runs_of(const std::string& optimizer) const;
    /// The runs of the base line that are the partners of these.
    [[nodiscard]] std::vector<training::Curve> partners(const std::vector<training::Curve>& runs) const;
    void map(const std::string& candidate, const training::Verdict& verdict);

    const TrainAsked& asked_;
    const training::Plan& plan_;
    const training::Text& text_;
    training::TrainingResults results_;
    std::size_t steps_ = 0;
};

/// Replaces training: judges the runs of the files `asked.curves`, the first of which belongs to
/// the base line. Adds a verdict for each other optimizer at each number of steps, and writes the
/// results. Returns true if all verdicts are SAME or BETTER.
[[nodiscard]] bool judge_curves(TrainAsked asked, const training::Plan& plan, const training::Text& text,
                                const std::vector<std::string>& arguments);

} // namespace truestep::training
