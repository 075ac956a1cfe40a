// Checks that all ranks of a run call the same collectives, and that each does what is defined.
#include <truestep/verify/collectives/check.hpp>

#include <algorithm>
#include <iterator>
#include <set>
#include <tuple>

#include <truestep/problem/text.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "definitions.hpp"
#include "hangs.hpp"

namespace truestep::verify::collectives {

namespace {

/// What all ranks of a call have to have in common. `with_op`: where all of them saw it.
std::tuple<std::string, std::string, int, std::string, Index> shared_by_all(const Call& call,
                                                                            bool with_op) {
    // Ranks may give another number of values each, where nothing is added, and one alone gives or takes.
    const bool same_count = is_reduction(call) || call.name == "BROADCAST" || call.name == "ALLGATHER_BASE";
    const bool uneven = call.name == "ALLTOALL" || call.name == "GATHER" || call.name == "SCATTER";
    return {call.name, with_op ? call.op : "", call.root, uneven ? "" : type_of(call),
            same_count ? values_in(call.inputs) : 0};
}

class Checker {
  public:
    explicit Checker(const std::vector<Recording>& run) : run_(run) {}

    Verdict check() {
        verdict_.block = run_.front().block;
        const std::vector<JoinedGroup> groups = join(run_);
        for (const JoinedGroup& group : groups)
            check_group(group);
        check_steps();
        std::ranges::move(find_hangs(groups), std::back_inserter(verdict_.findings));
        std::ranges::stable_sort(verdict_.findings, {}, &Finding::at);
        note_ends(groups);
        return std::move(verdict_);
    }

  private:
    void check_group(const JoinedGroup& group) {
        Definitions definitions(verdict_, group.ranks);
        for (std::size_t n = 0;; ++n) {
            Members members;
            for (std::size_t i = 0; i < group.ranks.size(); ++i)
                if (n < group.calls[i].size())
                    members.push_back({group.recordings[i], group.calls[i][n]});
            if (members.empty() || !is_one_call(group, members, definitions))
                break;
            Verdict::Count& count =
                verdict_.counts[readable(members[0].call->name) + " " + type_of(*members[0].call)];
            ++count.calls;
            if (members.size() == group.ranks.size() && definitions.check(members, count))
                ++count.checked;
        }
        for (const auto& [key, queue] : group.messages)
            check_messages(queue, definitions);
        definitions.check_places();
    }

    /// All ranks call the same thing here. Where not, nothing after it in this group can be compared.
    bool is_one_call(const JoinedGroup& group, const Members& members, Definitions& definitions) {
        const bool with_op =
            std::ranges::none_of(members, [](const Member& one) { return one.call->op.empty(); });
        const Member& first = members[0];
        const auto other = std::ranges::find_if(members, [&](const Member& one) {
            return shared_by_all(*one.call, with_op) != shared_by_all(*first.call, with_op);
        });
        if (other != members.end()) {
            definitions
                .add("order", first,
                     "rank " + std::to_string(other->rank()) + " calls " + text_of(*other->call) + " there",
                     {first.rank(), other->rank()})
                .details = {caller_of(first), caller_of(*other)};
            return false;
        }
        for (std::size_t i = 0; i < group.ranks.size(); ++i) {
            const Recording& absent = *group.recordings[i];
            if (!absent.ended || std::ranges::find(members, absent.rank, &Member::rank) != members.end())
                continue;
            Finding& finding = definitions.add("order", first,
                                               "rank " + std::to_string(absent.rank) +
                                                   " has ended without it, one call fewer in this group",
                                               {absent.rank});
            finding.details.push_back(caller_of(first));
            // A rank that leaves out one of many equal calls goes out of step there, and only its callers
            // show it.
            const auto& calls = group.calls[static_cast<std::size_t>(
                std::ranges::find(group.ranks, first.rank()) - group.ranks.begin())];
            const auto [one, another] =
                std::ranges::mismatch(calls, group.calls[i], {}, &Call::stack, &Call::stack);
            if (another != group.calls[i].end()) {
                finding.details.push_back("their callers part at an earlier call, " + text_of(**one) + ":");
                finding.details.push_back(caller_of({first.recording, *one}));
                finding.details.push_back(caller_of({&absent, *another}));
            }
            return false;
        }
        return true;
    }

    void check_messages(const JoinedGroup::Queue& queue, Definitions& definitions) {
        for (std::size_t n = 0; n < queue.sent.size(); ++n) {
            const Member& sender = queue.sent[n];
            Verdict::Count& count = verdict_.counts["message " + type_of(*sender.call)];
            ++count.calls;
            definitions.check_memory(sender);
            if (n >= queue.received.size() || !sender.call->given || !queue.received[n].call->taken)
                continue;
            ++count.checked;
            if (!definitions.arrived(sender, 0, queue.received[n], 0))
                return;
        }
    }

    /// Copies of a parameter that began alike are stepped with one gradient.
    void check_steps() {
        using Key = std::tuple<std::string, std::string, std::vector<Index>>;
        std::map<Key, bool> copied;
        for (std::size_t n = 0; run_.size() > 1; ++n) {
            std::map<Key, std::vector<std::pair<int, const Step::Parameter*>>> held;
            for (const Recording& recording : run_) {
                if (n >= recording.steps.size())
                    return;
                for (const Step::Parameter& parameter : recording.steps[n].parameters)
                    held[{parameter.name, parameter.replica, parameter.sizes}].push_back(
                        {recording.rank, &parameter});
            }
            ++verdict_.steps;
            for (const auto& [key, copies] : held) {
                const auto alike =
                    [&copies = copies](std::string Step::Parameter::*text) { // clang 14 captures no binding
                        return std::ranges::all_of(copies, [&](const auto& copy) {
                            return copy.second->*text == copies[0].second->*text;
                        });
                    };
                bool& same = copied.try_emplace(key, alike(&Step::Parameter::value)).first->second;
                if (!same || alike(&Step::Parameter::gradient))
                    continue;
                same = false; // found once
                std::vector<int> ranks;
                for (const auto& copy : copies)
                    ranks.push_back(copy.first);
                add_gradient(run_.front().steps[n], std::get<0>(key), ranks);
            }
        }
    }

    void add_gradient(const Step& step, const std::string& name, const std::vector<int>& ranks) {
        Finding finding;
        finding.at = step.after;
        finding.kind = "gradient";
        finding.where = "step " + std::to_string(step.step + 1) + ", gradient of " + name;
        finding.what = "it was never reduced over " + listed(ranks) +
                       ": each steps with another, and the parameters began alike";
        finding.details = {caller_text(run_.front().rank, step.stack)};
        finding.ranks = ranks;
        verdict_.findings.push_back(std::move(finding));
    }

    void note_ends(const std::vector<JoinedGroup>& joined) {
        std::set<std::string> groups;
        std::size_t calls = 0;
        std::vector<std::string>& notes = verdict_.notes;
        for (const Recording& recording : run_) {
            for (const auto& [number, group] : recording.groups)
                groups.insert(listed(group.ranks) + " " + std::to_string(group.ordinal));
            calls += recording.calls.size();
            const std::string last = last_wait_text(joined, recording);
            if (!recording.ended)
                notes.push_back(
                    recording.path.string() +
                    " has no end: the process was killed or still runs; what it wrote before, " +
                    count_of(recording.calls.size(), "call") + ", was checked" +
                    (last.empty() ? "" : "; " + last));
            for (const Call& call : recording.calls)
                if (const std::string& why = call.failed.empty() ? call.unseen : call.failed; !why.empty())
                    notes.push_back("rank " + std::to_string(recording.rank) + ", call " +
                                    std::to_string(call.number) + ", " + text_of(call) +
                                    (call.failed.empty() ? ", was not looked at: " : ", failed: ") + why);
        }
        if (!run_.front().hooks)
            notes.push_back(
                "torch " + run_.front().torch +
                " was watched without hooks: what C++ calls by itself, such as DistributedDataParallel's "
                "reducer, is not in the files; give it a comm hook in Python "
                "(default_hooks.allreduce_hook)");
        verdict_.run = count_of(run_.size(), "rank") + ", torch " + run_.front().torch + ", " +
                       count_of(groups.size(), "group") + ", " + count_of(calls, "call") + " in all";
    }

    const std::vector<Recording>& run_;
    Verdict verdict_;
};

} // namespace

Verdict check(const std::vector<Recording>& run) {
    return Checker(run).check();
}

} // namespace truestep::verify::collectives
