#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <truestep/gate/learning.hpp>
#include <truestep/training/drawing.hpp>
#include <truestep/training/plan.hpp>

// Trains a small model with candidates of the gate, of any system: section 33 of the specification.

namespace truestep::training {

/// The model, data and plan of a training, the same for every candidate.
struct ConvergeSettings {
    gate::Learning learning; ///< the system's part
    gate::Learning::Setting setting;
    Plan plan; ///< its density is what the system lowers
    std::string text;
    std::size_t micro_batches = 2; ///< whose gradients come one after the other
    std::size_t restart_at = 0;    ///< before this step all ranks are made anew from what they have saved
    std::size_t pairs = 8;         ///< of each candidate beside the base line
    std::size_t base_pairs = 16;   ///< of the base line beside its twin, from which sigma is known
    double margin = 0.05;          ///< nats a symbol
};
/// The settings of `check --converge`, in the system's setting of this name.
[[nodiscard]] ConvergeSettings usual_convergence(const gate::Learning& learning,
                                                 const std::string& setting = "");

/// One training run of an implementation on the settings' text.
struct LearnedRun {
    Curve curve;
    std::string ended; ///< "", or why it ended early: from there on its losses are NaN
    /// A digest of all states of all ranks, after each step. If two runs have the same, no state
    /// differed in any bit.
    std::uint64_t digest = 0;
};
/// Trains once. `turned`: each rank takes the next one's batches. That must not matter, but changes
/// the order of sums and the data from which a rank chooses masks. Such a run is called a twin.
[[nodiscard]] LearnedRun learn(const ConvergeSettings& settings, const Text& text,
                               const gate::Implementation& implementation, std::uint64_t seed,
                               bool turned = false);

/// Runs the base line and its twins, determines sigma, and then judges candidates one after the
/// other.
class Convergence {
  public:
    /// `jobs` runs at a time, each in its own process, limited to `run_seconds`; 0: here, one after
    /// the other.
    Convergence(const ConvergeSettings& settings, int jobs, double run_seconds);

    [[nodiscard]] const Text& text() const { return text_; }
    [[nodiscard]] const ConvergeSettings& settings() const { return settings_; }
    [[nodiscard]] const TrainingResults& results() const { return results_; }
    /// Runs the system's reference, which fixes sigma. Throws truestep::Error if the base line does
    /// not learn.
    void run_base();
    struct ImplementationVerdict {
        std::string candidate;
        Verdict verdict;
        std::string ended;        ///< of the first run that did not come to its end
        double seconds = 0;       ///< of its runs, one after the other
        bool same_bits = false;   ///< every measured loss equals the base line's
        bool same_states = false; ///< every state of every rank after each step equals the base line's
    };
    /// Judges all of these, a group of runs each, in their order.
    [[nodiscard]] std::vector<ImplementationVerdict> judge(const gate::Implementations& candidates);

    /// Writes index.html with its JSON, or only the JSON; an empty name writes neither.
    void write(const std::string& folder, const std::string& json,
               const std::vector<std::string>& arguments);

  private:
    struct PlannedRun {
        std::shared_ptr<const gate::Implementation> implementation;
        std::uint64_t seed = 0;
        bool turned = false;
    };
    struct Done {
        LearnedRun run;
        double seconds = 0;
    };
    [[nodiscard]] std::vector<Done> run_all(const std::vector<PlannedRun>& wanted) const;
    [[nodiscard]] ImplementationVerdict judged(const std::string& candidate, const std::vector<Done>& runs);

    ConvergeSettings settings_;
    int jobs_;
    double run_seconds_;
    Text text_;
    TrainingResults results_;
    std::vector<Curve> base_;
    std::vector<std::uint64_t> base_digests_; ///< of the same runs
};

/// "plain: SAME: ...", one line.
[[nodiscard]] std::string text(const Convergence::ImplementationVerdict& judged, const std::string& base);

} // namespace truestep::training
