// Finds who waits in a collective that does not end, since when, and who is missing there.
#include "hangs.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <tuple>

#include <truestep/problem/text.hpp>

namespace truestep::verify::collectives {

namespace {

/// A call of a group, by what its ranks have in common.
struct Place {
    const JoinedGroup* group = nullptr;
    Index number = 0;
    std::array<Index, 3> message{-1, -1, -1}; ///< sender, receiver and tag, of a message

    auto operator<=>(const Place&) const = default;
};

struct Wait {
    Member member;
    double seconds;
};

std::string seconds_text(double seconds) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f s", seconds);
    return text.data();
}

std::string call_text(const Call& call) {
    return "call " + std::to_string(call.number) + ", " + text_of(call);
}

const JoinedGroup* group_of(const std::vector<JoinedGroup>& run, const Recording& recording,
                            const Call& call) {
    const Group& group = recording.groups.at(call.group);
    for (const JoinedGroup& one : run)
        if (one.ranks == group.ranks && one.ordinal == group.ordinal)
            return &one;
    return nullptr;
}

bool is_message(const Call& call) {
    return call.name == "SEND" || call.name == "RECV";
}

Index index_in(const JoinedGroup& group, int rank) {
    return std::ranges::find(group.ranks, rank) - group.ranks.begin();
}

Place place_of(const JoinedGroup& group, const Member& member) {
    Place place{.group = &group, .number = member.call->place};
    const Index me = index_in(group, member.rank());
    if (is_message(*member.call))
        place.message = {member.call->name == "SEND" ? me : member.call->root,
                         member.call->name == "SEND" ? member.call->root : me,
                         member.call->tag.value_or(-1)};
    return place;
}

/// The ranks that have not made the call, or of a message the other one.
std::vector<const Recording*> missing_at(const Place& place, const Member& member) {
    std::vector<const Recording*> missing;
    const JoinedGroup& group = *place.group;
    if (is_message(*member.call)) {
        const auto queue = group.messages.find(place.message);
        const bool sends = member.call->name == "SEND";
        const std::size_t there = queue == group.messages.end()
                                      ? 0
                                      : (sends ? queue->second.received : queue->second.sent).size();
        const auto other = static_cast<std::size_t>(member.call->root);
        if (member.call->root >= 0 && other < group.recordings.size() &&
            there <= static_cast<std::size_t>(place.number))
            missing.push_back(group.recordings[other]);
        return missing;
    }
    for (std::size_t i = 0; i < group.ranks.size(); ++i)
        if (group.calls[i].size() <= static_cast<std::size_t>(place.number))
            missing.push_back(group.recordings[i]);
    return missing;
}

std::vector<int> ranks_of(const std::vector<const Recording*>& recordings) {
    std::vector<int> ranks;
    for (const Recording* recording : recordings)
        ranks.push_back(recording->rank);
    return ranks;
}

/// Where a rank is that others wait for.
std::string whereabouts(const Recording& recording) {
    const std::string rank = "rank " + std::to_string(recording.rank);
    const std::string last = recording.calls.empty() ? "it has called nothing"
                                                     : "its last was " + call_text(recording.calls.back());
    if (recording.ended)
        return rank + " has ended; " + last;
    if (!recording.hang)
        return rank + " has no word of a hang in its file; " + last;
    const Hang& hang = *recording.hang;
    if (!hang.waits.empty()) {
        const Call& call = recording.calls[static_cast<std::size_t>(hang.waits.front().call)];
        return rank + " itself waits in " + call_text(call);
    }
    return caller_text(recording.rank, hang.stack) + ", in no collective for " + seconds_text(hang.silent) +
           "; " + last;
}

} // namespace

std::vector<Finding> find_hangs(const std::vector<JoinedGroup>& run) {
    std::map<Place, std::vector<Wait>> waits;
    for (const JoinedGroup& group : run)
        for (const Recording* recording : group.recordings) {
            if (!recording->hang || recording->hang->waits.empty())
                continue;
            const auto& [number, seconds] = recording->hang->waits.front();
            const Member member{recording, &recording->calls[static_cast<std::size_t>(number)]};
            if (group_of(run, *recording, *member.call) == &group)
                waits[place_of(group, member)].push_back({member, seconds});
        }
    std::vector<Finding> findings;
    for (const auto& [place, all] : waits) {
        const Member& first = all.front().member;
        const std::vector<const Recording*> missing = missing_at(place, first);
        Finding finding;
        finding.at = first.call->number;
        finding.kind = "hang";
        finding.where = "call " + std::to_string(first.call->number) + " of rank " +
                        std::to_string(first.rank()) + ", " + text_of(*first.call) + " over " +
                        listed(place.group->ranks);
        finding.what = "it has not ended: " +
                       (missing.empty() ? "all ranks are in a call there"
                                        : listed(ranks_of(missing)) +
                                              (missing.size() == 1 ? " has" : " have") + " not called it");
        finding.ranks = ranks_of(missing);
        for (const Wait& wait : all)
            finding.details.push_back(caller_of(wait.member) + ", waits for " + seconds_text(wait.seconds));
        for (const Recording* recording : missing)
            finding.details.push_back(whereabouts(*recording));
        for (const Recording* recording : place.group->recordings)
            if (recording->hang && !recording->hang->flight.empty())
                finding.details.push_back("PyTorch's flight recorder of rank " +
                                          std::to_string(recording->rank) + ": " + recording->hang->flight);
        findings.push_back(std::move(finding));
    }
    return findings;
}

std::string last_wait_text(const std::vector<JoinedGroup>& run, const Recording& recording) {
    if (recording.calls.empty())
        return "";
    const Call& last = recording.calls.back();
    if (recording.ended || recording.hang || !last.given || last.taken || !last.failed.empty())
        return "";
    const JoinedGroup* group = group_of(run, recording, last);
    if (group == nullptr)
        return "";
    const Member member{&recording, &last};
    const std::vector<const Recording*> missing = missing_at(place_of(*group, member), member);
    return "it was in " + call_text(last) +
           (missing.empty() ? ""
                            : ", which " + listed(ranks_of(missing)) +
                                  (missing.size() == 1 ? " has" : " have") + " not called");
}

} // namespace truestep::verify::collectives
