// Explores a scenario's schedules: enumerates, draws or repeats the choices of the next thread.
#include "explorer.hpp"

#include <random>
#include <sstream>
#include <stdexcept>
#include <unordered_map>
#include <utility>
#include <vector>

namespace truestep::distributed::model {
namespace {

struct Decision {
    std::size_t step;
    std::size_t option;
};

/// Records the decisions, so that they can be repeated.
class Recorder : public Chooser {
  public:
    std::size_t choose(const Choice& choice) final {
        const std::size_t option = decide(choice);
        if (option > 0)
            decisions_.push_back({choice.step, option});
        return option;
    }

    [[nodiscard]] std::string schedule() const {
        std::ostringstream text;
        const char* space = "";
        for (const Decision& decision : decisions_) {
            text << space << decision.step << ':' << decision.option;
            space = " ";
        }
        return text.str();
    }

  protected:
    virtual std::size_t decide(const Choice& choice) = 0;
    void begin_again() { decisions_.clear(); }

  private:
    std::vector<Decision> decisions_;
};

/// Enumerates depth first. Where an earlier schedule has been in the same state with as many
/// preemptions left, everything that may follow is explored from there, so this one takes the first
/// options to its end.
class Enumeration final : public Recorder {
  public:
    Enumeration(int bound, bool cuts) : bound_(bound), left_(bound), cuts_(cuts) {}

    [[nodiscard]] bool next() {
        while (!branches_.empty() && branches_.back().option + 1 == branches_.back().options)
            branches_.pop_back();
        if (branches_.empty())
            return false;
        ++branches_.back().option;
        depth_ = 0;
        left_ = bound_;
        cut_ = false;
        begin_again();
        return true;
    }

    [[nodiscard]] bool was_cut() const { return cut_; }

  private:
    std::size_t decide(const Choice& choice) override {
        if (cut_)
            return 0;
        std::size_t affordable = 0;
        while (affordable < choice.options.size() && choice.options[affordable].cost <= left_)
            ++affordable;
        if (affordable < 2)
            return 0;
        if (depth_ == branches_.size()) {
            if (cuts_ && has_been_in(choice.state)) {
                cut_ = true;
                return 0;
            }
            branches_.push_back({choice.step, 0, affordable});
        }
        const Branch& branch = branches_[depth_++];
        if (branch.step != choice.step || branch.options != affordable)
            Scheduler::now().fail("the same decisions have led elsewhere: something else decides, too");
        left_ -= choice.options[branch.option].cost;
        return branch.option;
    }

    /// Returns whether an earlier schedule was in this state with as many preemptions left, and
    /// records this one.
    [[nodiscard]] bool has_been_in(std::uint64_t state) {
        const auto [place, is_new] = seen_.try_emplace(state, left_);
        if (!is_new && place->second >= left_)
            return true;
        place->second = left_;
        return false;
    }

    struct Branch {
        std::size_t step;
        std::size_t option;
        std::size_t options;
    };
    int bound_;
    int left_;
    bool cuts_;
    std::size_t depth_ = 0;
    bool cut_ = false;
    std::vector<Branch> branches_;
    std::unordered_map<std::uint64_t, int> seen_; ///< states, with the most preemptions left in one
};

/// Stays with a thread for ten steps on average: long enough to make progress.
class Draw final : public Recorder {
  public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}
    void next() { begin_again(); }

  private:
    std::size_t decide(const Choice& choice) override {
        if (choice.options.back().cost > 0 && random_() % 10 != 0)
            return 0;
        return random_() % choice.options.size();
    }
    std::mt19937_64 random_;
};

class Repetition final : public Recorder {
  public:
    explicit Repetition(const std::string& schedule) {
        std::istringstream text(schedule);
        Decision decision{};
        char colon = 0;
        while (text >> decision.step >> colon >> decision.option && colon == ':')
            wanted_.push_back(decision);
        if (!text.eof())
            throw std::invalid_argument("not a schedule: " + schedule);
    }
    [[nodiscard]] bool fits() const { return taken_ == wanted_.size(); }

  private:
    std::size_t decide(const Choice& choice) override {
        if (taken_ == wanted_.size() || wanted_[taken_].step != choice.step ||
            wanted_[taken_].option >= choice.options.size())
            return 0;
        return wanted_[taken_++].option;
    }
    std::vector<Decision> wanted_;
    std::size_t taken_ = 0;
};

void run_once(Scheduler& scheduler, const Scenario& scenario, Recorder& recorder,
              ExplorationResult& explored) {
    const std::string what = scheduler.run(scenario.world, scenario.body, recorder);
    ++explored.schedules;
    explored.steps += scheduler.steps();
    if (!what.empty())
        explored.failure = Failure{what, recorder.schedule(), scheduler.story()};
}

} // namespace

void expect(bool holds, std::string_view what) {
    if (!holds)
        Scheduler::now().fail(std::string(what));
}

ExplorationResult enumerate(const Scenario& scenario, int bound, Way way) {
    Scheduler scheduler;
    Enumeration enumeration(bound, way.cuts);
    ExplorationResult explored;
    do {
        run_once(scheduler, scenario, enumeration, explored);
        if (enumeration.was_cut())
            ++explored.cut;
        if (way.keeps_ends)
            explored.ends.insert(scheduler.state());
    } while (!explored.failure && enumeration.next());
    return explored;
}

ExplorationResult enumerate_up_to(const Scenario& scenario, int bound) {
    ExplorationResult all;
    for (int least = 0; least <= bound && !all.failure; ++least) {
        const ExplorationResult explored = enumerate(scenario, least);
        all.schedules += explored.schedules;
        all.cut += explored.cut;
        all.steps += explored.steps;
        all.failure = explored.failure;
    }
    return all;
}

ExplorationResult draw(const Scenario& scenario, std::uint64_t seed, std::uint64_t count) {
    Scheduler scheduler;
    Draw drawn(seed);
    ExplorationResult explored;
    while (!explored.failure && explored.schedules < count) {
        drawn.next();
        run_once(scheduler, scenario, drawn, explored);
    }
    return explored;
}

ExplorationResult repeat(const Scenario& scenario, const std::string& schedule) {
    Scheduler scheduler;
    Repetition repetition(schedule);
    ExplorationResult explored;
    run_once(scheduler, scenario, repetition, explored);
    if (!repetition.fits())
        throw std::invalid_argument(scenario.name + " does not come by all of schedule " + schedule);
    return explored;
}

} // namespace truestep::distributed::model
