// Joins the collectives that ranks recorded: the n-th calls of a group become one call.
#include "join.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::verify::collectives {

namespace {

/// As long as the ranks of a run may wait for each other when they meet, by PyTorch's default.
constexpr Index longest_start = 1800;

void expect_one_run(const Recording& first, const Recording& other) {
    const auto refuse = [&](const std::string& what) {
        throw Error(other.path.string() + ": it is of another run than " + first.path.string() + ": " +
                    what + "; give the files of one run");
    };
    if (first.world != other.world)
        refuse("its ranks are " + std::to_string(other.world) + ", not " + std::to_string(first.world));
    if (first.run != other.run)
        refuse("the launcher called it '" + one_line(other.run) + "', not '" + one_line(first.run) + "'");
    if (const Index apart = std::abs(first.started - other.started); apart > longest_start)
        refuse("it began " + std::to_string(apart) + " seconds apart");
    if (first.every != other.every || first.block != other.block)
        refuse("every or sample is another");
}

} // namespace

std::vector<Recording> read_run(const std::vector<std::string>& paths) {
    std::vector<Recording> run;
    for (const std::string& path : paths)
        run.push_back(read_recording(path));
    std::ranges::stable_sort(run, {}, &Recording::rank);
    for (std::size_t i = 1; i < run.size(); ++i) {
        expect_one_run(run.front(), run[i]);
        if (run[i].rank == run[i - 1].rank)
            throw Error(run[i].path.string() + ": it is of rank " + std::to_string(run[i].rank) + ", as " +
                        run[i - 1].path.string() + " is; give one file a rank");
    }
    for (int rank = 0; rank < run.front().world; ++rank)
        if (static_cast<std::size_t>(rank) >= run.size() ||
            run[static_cast<std::size_t>(rank)].rank != rank)
            throw Error(run.front().path.string() + ": rank " + std::to_string(rank) + " of " +
                        std::to_string(run.front().world) + " is missing; give the files of all ranks");
    return run;
}

std::vector<JoinedGroup> join(const std::vector<Recording>& run) {
    std::map<std::pair<std::vector<int>, Index>, JoinedGroup> joined;
    for (const Recording& recording : run) {
        std::map<int, JoinedGroup*> here;
        for (const auto& [number, group] : recording.groups) {
            for (const int rank : group.ranks)
                if (rank >= recording.world)
                    throw Error(recording.path.string() + ": a group has rank " + std::to_string(rank) +
                                ", and the run " + std::to_string(recording.world) +
                                "; the file is damaged");
            if (std::ranges::find(group.ranks, recording.rank) == group.ranks.end())
                throw Error(recording.path.string() +
                            ": a group does not have its own rank; the file is damaged");
            JoinedGroup& one = joined[{group.ranks, group.ordinal}];
            if (one.ranks.empty()) {
                one.ranks = group.ranks;
                one.ordinal = group.ordinal;
                one.calls.resize(group.ranks.size());
                for (const int rank : group.ranks)
                    one.recordings.push_back(&run[static_cast<std::size_t>(rank)]);
            }
            here[number] = &one;
        }
        for (const Call& call : recording.calls) {
            JoinedGroup& group = *here.at(call.group);
            const Index me = std::ranges::find(group.ranks, recording.rank) - group.ranks.begin();
            const bool sends = call.name == "SEND";
            if (!sends && call.name != "RECV") {
                group.calls[static_cast<std::size_t>(me)].push_back(&call);
            } else if (call.tag && call.root >= 0) {
                auto& queue = group.messages[{sends ? me : call.root, sends ? call.root : me, *call.tag}];
                (sends ? queue.sent : queue.received).push_back({&recording, &call});
            }
        }
    }
    std::vector<JoinedGroup> groups;
    for (auto& [key, group] : joined)
        groups.push_back(std::move(group));
    return groups;
}

std::string readable(const std::string& name) {
    static const std::map<std::string, std::string> names{
        {"ALLREDUCE", "all-reduce"},
        {"ALLREDUCE_COALESCED", "coalesced all-reduce"},
        {"REDUCE", "reduce"},
        {"BROADCAST", "broadcast"},
        {"ALLGATHER", "all-gather"},
        {"ALLGATHER_BASE", "all-gather into a tensor"},
        {"ALLGATHER_INTO_TENSOR_COALESCED", "coalesced all-gather"},
        {"ALLGATHER_COALESCED", "coalesced all-gather of lists"},
        {"REDUCE_SCATTER", "reduce-scatter of a list"},
        {"REDUCE_SCATTER_BASE", "reduce-scatter"},
        {"REDUCE_SCATTER_TENSOR_COALESCED", "coalesced reduce-scatter"},
        {"GATHER", "gather"},
        {"SCATTER", "scatter"},
        {"ALLTOALL", "all-to-all"},
        {"ALLTOALL_BASE", "all-to-all of a tensor"},
        {"SEND", "send"},
        {"RECV", "receive"},
        {"BARRIER", "barrier"}};
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
}

std::string text_of(const std::vector<Shape>& shapes) {
    std::string text;
    for (const Shape& shape : shapes) {
        text += (text.empty() ? "" : ", ") + shape.type + "[";
        for (std::size_t i = 0; i < shape.sizes.size(); ++i)
            text += (i == 0 ? "" : ",") + std::to_string(shape.sizes[i]);
        text += ']';
    }
    return text;
}

std::string text_of(const Call& call) {
    const std::string shapes = text_of(call.inputs.empty() ? call.outputs : call.inputs);
    return readable(call.name) + (call.op.empty() ? "" : " " + call.op) +
           (shapes.empty() ? "" : " of " + shapes) +
           (call.root < 0 ? "" : ", root " + std::to_string(call.root));
}

std::string caller_text(int rank, const std::vector<std::string>& stack) {
    std::string text;
    for (const std::string& frame : stack)
        text += (text.empty() ? "" : ", from ") + frame;
    return "rank " + std::to_string(rank) + ": " + (text.empty() ? "called from C++" : text);
}

std::string caller_of(const Member& member) {
    return caller_text(member.rank(), member.call->stack);
}

std::string listed(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i)
        text += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
    return text;
}

} // namespace truestep::verify::collectives
