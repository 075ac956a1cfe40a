// Makes the finding on a case of GASLoC, and draws each worker's model beside the reference's.
#include "difference.hpp"

#include <utility>

#include "recording.hpp"
#include "trial.hpp"

namespace truestep::properties::gasloc {

namespace {

class Difference final : public gate::PhrasedFinding {
  public:
    Difference(std::string message, std::string details, const Case& run, Scenario scenario,
               std::vector<RankRecording> lives, Index round)
        : PhrasedFinding(std::move(message), std::move(details),
                         {run.size, spec().most_workers(run), run.rounds}),
          scenario_(std::move(scenario)), lives_(std::move(lives)), round_(round) {}

    std::int64_t parted_at() const override { return round_; }
    std::optional<gate::Drawing> drawing() const override;
    bool save(const std::filesystem::path& path, const std::string& source) const override {
        return record_lives(path, source, scenario_, lives_);
    }

  private:
    /// One part of every worker's state after a round; blank where a worker has none.
    using Part = std::vector<float> State::*;
    [[nodiscard]] gate::Lane::Values texts_of(const RankRecording& life, Index round, Part part) const {
        const auto found = life.rounds.find(round);
        if (found != life.rounds.end() &&
            (found->second.state.*part).size() == static_cast<std::size_t>(scenario_.size))
            return gate::texts(found->second.state.*part);
        gate::Lane::Values blanks(static_cast<std::size_t>(scenario_.size), "");
        return blanks;
    }
    [[nodiscard]] gate::Lane lane(const char* name, const char* title, Part part,
                                  const std::vector<RankRecording>& expected) const {
        gate::Lane lane{name, title};
        for (int worker = 0; worker < scenario_.workers_in(round_); ++worker) {
            const auto i = static_cast<std::size_t>(worker);
            lane.values.push_back(texts_of(lives_[i], round_, part));
            lane.expected.push_back(texts_of(expected[i], round_, part));
        }
        return lane;
    }

    Scenario scenario_;
    std::vector<RankRecording> lives_;
    Index round_;
};

/// Draws each worker's model before the round, its gradients, and its result beside the reference's.
std::optional<gate::Drawing> Difference::drawing() const {
    const int workers = scenario_.workers_in(round_);
    if (lives_.size() < static_cast<std::size_t>(workers) ||
        scenario_.size > gate::Drawing::most_coordinates || scenario_.size < 1 || round_ < 1)
        return std::nullopt;
    const std::vector<RankRecording> expected = expected_lives(scenario_);
    gate::Drawing drawing{"round " + std::to_string(round_), scenario_.size, workers};
    drawing.tensors = {{"x", 0, scenario_.size}};
    gate::Lane before{"before", "theta at the round's begin"};
    for (int worker = 0; worker < workers; ++worker)
        before.values.push_back(
            round_ == 1 ? gate::texts(scenario_.start)
                        : texts_of(expected[static_cast<std::size_t>(worker)], round_ - 1, &State::theta));
    drawing.lanes.push_back(before);
    constexpr Index most_gradients = 4;
    for (Index step = 1; step <= std::min(most_gradients, scenario_.most_steps(round_)); ++step) {
        gate::Lane lane{"gradient " + std::to_string(step), ""};
        for (int worker = 0; worker < workers; ++worker)
            lane.values.push_back(step <= scenario_.steps(worker, round_)
                                      ? gate::texts(scenario_.gradient(worker, round_, step))
                                      : gate::Lane::Values(static_cast<std::size_t>(scenario_.size), ""));
        drawing.lanes.push_back(lane);
    }
    drawing.lanes.push_back(lane("after", "theta at its end", &State::theta, expected));
    drawing.lanes.push_back(
        lane("momentum", "what the next round's momentum is measured from", &State::before, expected));
    return drawing;
}

} // namespace

std::shared_ptr<const gate::Finding> difference(std::string message, std::string details, const Case& run,
                                                const Scenario& scenario, std::vector<RankRecording> lives,
                                                Index round) {
    return std::make_shared<Difference>(std::move(message), std::move(details), run, scenario,
                                        std::move(lives), round);
}

} // namespace truestep::properties::gasloc
