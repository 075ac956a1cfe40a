/// The files of a run's ranks, joined: the n-th call of a group is the same call on each of its ranks.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include <truestep/verify/collectives/check.hpp>

namespace truestep::verify::collectives {

/// One rank's part in a collective.
struct Member {
    const Recording* recording;
    const Call* call;

    [[nodiscard]] int rank() const { return recording->rank; }
};

/// The calls of one group, as each rank made them.
struct JoinedGroup {
    std::vector<int> ranks;
    Index ordinal = 0;                        ///< among the groups of these ranks
    std::vector<const Recording*> recordings; ///< one a rank of it
    std::vector<std::vector<const Call*>> calls;
    /// Messages by sender, receiver and tag, each side in its order.
    struct Queue {
        std::vector<Member> sent;
        std::vector<Member> received;
    };
    std::map<std::array<Index, 3>, Queue> messages;
};

[[nodiscard]] std::vector<JoinedGroup> join(const std::vector<Recording>& run);

/// "all-reduce", as people say.
[[nodiscard]] std::string readable(const std::string& name);
/// "float32[4096]", of all tensors.
[[nodiscard]] std::string text_of(const std::vector<Shape>& shapes);
[[nodiscard]] std::string text_of(const Call& call);
/// "rank 1 at train.py:31 step, called from ...".
[[nodiscard]] std::string caller_text(int rank, const std::vector<std::string>& stack);
[[nodiscard]] std::string caller_of(const Member& member);
[[nodiscard]] std::string listed(const std::vector<int>& ranks);

} // namespace truestep::verify::collectives
