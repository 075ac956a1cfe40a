// Averaging's implementations as the gate runs them, and what it records of each rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/counting.hpp>
#include <truestep/gate/group.hpp>
#include <truestep/gate/group_implementation.hpp>

#include "case.hpp"

namespace truestep::properties::averaging {

/// The recording of one rank.
struct RankRecording {
    std::vector<std::vector<float>> after; ///< the parameters after each round
    distributed::Bytes sent{};             ///< counted outside the implementation

    void fields(auto& visit) { visit(after, sent); }
};

/// Runs a case on one rank, and shows the parameters after each round.
using Show = std::function<void(const std::vector<float>& parameters)>;
using Play = std::function<void(const Case& run, distributed::Communicator& ranks, const Show& show)>;

/// An implementation under test, on a group's ranks.
class Implementation final : public gate::GroupImplementation<gate::Implementation> {
  public:
    Implementation(const std::string& name, Play play, std::shared_ptr<const gate::Group> group)
        : GroupImplementation(name, std::move(group)), play_(std::move(play)) {}

    /// The recording of each rank, the same everywhere. Throws where a rank failed.
    [[nodiscard]] std::vector<RankRecording> run(const Case& run) const;

  private:
    Play play_;
};

/// The implementation in distributed/averaging.
void play_worker(const Case& run, distributed::Communicator& ranks, const Show& show);

} // namespace truestep::properties::averaging
