// An implementation that is one function, which plays a case on one rank and shows the parameters after
// each round; and the trial of such a case.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/counting.hpp>
#include <truestep/gate/group_implementation.hpp>
#include <truestep/gate/record.hpp>
#include <truestep/gate/system.hpp>
#include <truestep/gate/trial.hpp>

namespace truestep::gate {

/// The recording of one rank.
struct ShownByRank {
    std::vector<std::vector<float>> after; ///< the parameters after each round
    distributed::Bytes sent{};             ///< counted outside the implementation

    void fields(auto& visit) { visit(after, sent); }
};

template <class Case>
class PlayedImplementation final : public GroupImplementation<Implementation> {
  public:
    /// Plays a case on one rank, and fills in what is seen of it.
    using Play = std::function<void(const Case&, distributed::Communicator& ranks, ShownByRank& seen)>;

    PlayedImplementation(const std::string& name, Play play, std::shared_ptr<const Group> group)
        : GroupImplementation(name, std::move(group)), play_(std::move(play)) {}

    /// Makes System::planted of a system with so many known bugs. `play` plays a case with the known bug of
    /// that number, or without any for 0.
    [[nodiscard]] static auto planted(
        std::size_t known_bugs,
        std::function<void(int number, const Case&, distributed::Communicator&, ShownByRank& seen)> play) {
        return [=](int number, const std::shared_ptr<const Group>& group) {
            return std::make_shared<PlayedImplementation>(name_of_planted(number, known_bugs),
                                                          std::bind_front(play, number), group);
        };
    }

    /// The recording of each rank, the same everywhere. Throws where a rank failed.
    [[nodiscard]] std::vector<ShownByRank> run(const Case& run, int workers) const {
        std::vector<ShownByRank> mine(static_cast<std::size_t>(workers));
        group().run(workers, [&](distributed::Communicator& ranks) {
            ShownByRank& seen = mine[static_cast<std::size_t>(ranks.rank())];
            distributed::CountingCommunicator counted(ranks);
            play_(run, counted, seen);
            seen.sent = counted.bytes();
        });
        return exchange_records(group(), mine);
    }

  private:
    Play play_;
};

/// The trial of a case that a PlayedImplementation plays.
template <class Case>
class PlayedTrial : public TrialOf<Case> {
  public:
    PlayedTrial(const Implementation& implementation, const Case& judged_case,
                std::vector<problem::Tensor> tensors, int workers, std::int64_t rounds)
        : TrialOf<Case>(judged_case, std::move(tensors)),
          seen(dynamic_cast<const PlayedImplementation<Case>&>(implementation).run(judged_case, workers)) {
        for (const ShownByRank& of_rank : seen)
            if (of_rank.after.size() != static_cast<std::size_t>(rounds))
                throw std::runtime_error("parameters are not shown after each round");
    }

    /// Compares all ranks from `first` on bit for bit, after each round.
    void compare(const std::vector<std::vector<float>>& expected, const std::string& whose,
                 std::size_t first = 0) {
        for (std::size_t round = 0; round < expected.size(); ++round)
            for (std::size_t rank = first; rank < seen.size(); ++rank)
                this->same(
                    verify::compare(expected[round], seen[rank].after[round], verify::Level::exact()),
                    static_cast<std::int64_t>(round),
                    "after round " + std::to_string(round + 1) + " the parameters of rank " +
                        std::to_string(rank) + " are not " + whose);
    }

    std::vector<ShownByRank> seen; ///< of each rank
};

} // namespace truestep::gate
