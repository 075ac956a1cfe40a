// An implementation that is one function, which plays a case on one rank.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/counting.hpp>
#include <truestep/gate/group_implementation.hpp>
#include <truestep/gate/record.hpp>

namespace truestep::gate {

/// `Recording` has the `fields` that ranks send each other, and among them `sent`, which is counted outside
/// the implementation.
template <class Case, class Recording>
class PlayedImplementation final : public GroupImplementation<Implementation> {
  public:
    /// Plays a case on one rank, and fills in what is seen of it.
    using Play = std::function<void(const Case&, distributed::Communicator& ranks, Recording& seen)>;

    PlayedImplementation(const std::string& name, Play play, std::shared_ptr<const Group> group)
        : GroupImplementation(name, std::move(group)), play_(std::move(play)) {}

    /// The recording of each rank, the same everywhere. Throws where a rank failed.
    [[nodiscard]] std::vector<Recording> run(const Case& run, int workers) const {
        std::vector<Recording> mine(static_cast<std::size_t>(workers));
        group().run(workers, [&](distributed::Communicator& ranks) {
            Recording& seen = mine[static_cast<std::size_t>(ranks.rank())];
            distributed::CountingCommunicator counted(ranks);
            play_(run, counted, seen);
            seen.sent = counted.bytes();
        });
        return exchange_records(group(), mine);
    }

  private:
    Play play_;
};

} // namespace truestep::gate
