#pragma once

#include <memory>
#include <string>
#include <vector>

#include <scape/properties/group.hpp>
#include <scape/properties/implementation.hpp>

namespace scape::properties {

/// Section 4 by the reference, all ranks in lockstep. Given to the gate as one of the implementations, and
/// what the others are compared with.
[[nodiscard]] std::shared_ptr<const Implementation> reference_implementation();

/// An implementation whose ranks are made one by one and talk through a communicator.
struct Ranked {
    std::string name;
    verify::LevelKind level = verify::LevelKind::exact;
    problem::Algorithm algorithm = problem::Algorithm::scape;
    std::vector<std::string> variants{"default"};
    MakeCandidate make;
};
[[nodiscard]] std::shared_ptr<const Implementation> on_ranks(Ranked ranked,
                                                             std::shared_ptr<const Group> group);

/// All that this build has, over the group's ranks; the reference needs none and comes first where the
/// group is of threads. Those who know more implementations add to the list.
[[nodiscard]] std::vector<std::shared_ptr<const Implementation>>
all_implementations(const std::shared_ptr<const Group>& group);

} // namespace scape::properties
