#include <truestep/verify/collectives/check.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include <truestep/problem/text.hpp>
#include <truestep/verify/collectives/reduction.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/verdict_builder.hpp>

#include "join.hpp"

namespace truestep::verify::collectives {

namespace {

using Members = std::vector<Member>;

const std::set<std::string> reductions{
    "ALLREDUCE",      "ALLREDUCE_COALESCED", "REDUCE",
    "REDUCE_SCATTER", "REDUCE_SCATTER_BASE", "REDUCE_SCATTER_TENSOR_COALESCED"};

Index values_in(const std::vector<Shape>& shapes) {
    Index all = 0;
    for (const Shape& shape : shapes) {
        Index count = 1;
        for (const Index size : shape.sizes)
            count *= size;
        all += count;
    }
    return all;
}

const std::string& type_of(const Call& call) {
    static const std::string none;
    return !call.inputs.empty() ? call.inputs[0].type : !call.outputs.empty() ? call.outputs[0].type : none;
}

/// What all ranks of a call have to have in common.
std::tuple<std::string, std::string, int, std::string, Index> shared_by_all(const Call& call) {
    // Ranks may give another number of values each, where nothing is added.
    const bool same_count =
        reductions.contains(call.name) || call.name == "BROADCAST" || call.name == "ALLGATHER_BASE";
    const bool root_alone = call.name == "GATHER" || call.name == "SCATTER";
    return {call.name, call.op, call.root, call.name == "ALLTOALL" || root_alone ? "" : type_of(call),
            same_count ? values_in(call.inputs) : 0};
}

/// The sampled values of a part, among those of all parts of the operands.
class Sample {
  public:
    Sample(const Recording& recording, const Operands& operands, std::size_t size, Index place)
        : bytes_(sampled_values(recording, operands)), size_(size) {
        std::size_t begin = 0;
        for (const Part& part : operands.parts) {
            const std::size_t length =
                size * (recording.block == 1 ? static_cast<std::size_t>(part.count)
                                             : sampled_indices(part.count, recording.block, place).size());
            parts_.push_back({begin, length});
            begin += length;
        }
        if (begin != bytes_.size())
            throw Error(
                recording.path.string() + ": call " + std::to_string(place) +
                " of its group has other values than its shapes and sample tell; the file is damaged");
    }

    [[nodiscard]] std::span<const std::byte> part(std::size_t at) const {
        return std::span(bytes_).subspan(parts_[at].first, parts_[at].second);
    }

  private:
    std::vector<std::byte> bytes_;
    std::vector<std::pair<std::size_t, std::size_t>> parts_;
    std::size_t size_;
};

class Checker {
  public:
    explicit Checker(const std::vector<Recording>& run) : run_(run) {}

    Verdict check() {
        verdict_.block = run_.front().block;
        for (const JoinedGroup& group : join(run_))
            check_group(group);
        check_steps();
        std::ranges::stable_sort(verdict_.findings, {}, &Finding::at);
        return std::move(verdict_);
    }

  private:
    void check_group(const JoinedGroup& group) {
        group_ = &group;
        std::size_t longest = 0;
        for (const auto& calls : group.calls)
            longest = std::max(longest, calls.size());
        for (std::size_t n = 0; n < longest; ++n) {
            Members members;
            for (std::size_t i = 0; i < group.ranks.size(); ++i)
                if (n < group.calls[i].size())
                    members.push_back({group.recordings[i], group.calls[i][n]});
            if (!is_one_call(members))
                return check_places();
            Verdict::Count& count =
                verdict_.counts[readable(members[0].call->name) + " " + type_of(*members[0].call)];
            ++count.calls;
            if (members.size() == group.ranks.size())
                count.checked += check_call(members, count) ? 1 : 0;
        }
        for (const auto& [key, queue] : group.messages)
            check_messages(queue);
        check_places();
    }

    Finding& add(const std::string& kind, const Member& first, const std::string& what,
                 std::vector<int> ranks) {
        verdict_.findings.push_back({first.call->number,
                                     kind,
                                     "call " + std::to_string(first.call->number) + " of rank " +
                                         std::to_string(first.rank()) + ", " + text_of(*first.call) +
                                         " over " + listed(group_->ranks),
                                     what,
                                     {},
                                     std::move(ranks)});
        return verdict_.findings.back();
    }

    /// All ranks call the same thing here. Where not, nothing after it in this group can be compared.
    bool is_one_call(const Members& members) {
        const auto first = shared_by_all(*members[0].call);
        const auto other = std::ranges::find_if(
            members, [&](const Member& one) { return shared_by_all(*one.call) != first; });
        if (other != members.end()) {
            Finding& finding =
                add("order", members[0],
                    "rank " + std::to_string(other->rank()) + " calls " + text_of(*other->call) + " there",
                    {members[0].rank(), other->rank()});
            finding.details = {caller_of(members[0]), caller_of(*other)};
            return false;
        }
        std::vector<int> absent;
        for (const Recording* recording : group_->recordings)
            if (recording->ended &&
                std::ranges::find(members, recording->rank, &Member::rank) == members.end())
                absent.push_back(recording->rank);
        if (!absent.empty()) {
            Finding& finding =
                add("order", members[0],
                    listed(absent) + (absent.size() == 1 ? " has" : " have") +
                        " ended without it: the calls before are as many on all ranks, and one more here",
                    absent);
            finding.details.push_back(caller_of(members[0]));
            if (const auto parting = first_other_caller(members[0], absent[0]); parting.size() == 2) {
                finding.details.push_back("their callers part at an earlier call, " +
                                          text_of(*parting[0].call) + ":");
                for (const Member& member : parting)
                    finding.details.push_back(caller_of(member));
            }
            return false;
        }
        return true;
    }

    /// A rank that leaves out one of many equal calls goes out of step there, and only its callers show it.
    [[nodiscard]] Members first_other_caller(const Member& one, int absent) const {
        const auto calls_of = [&](int rank) -> const std::vector<const Call*>& {
            return group_->calls[static_cast<std::size_t>(std::ranges::find(group_->ranks, rank) -
                                                          group_->ranks.begin())];
        };
        const auto& a = calls_of(one.rank());
        const auto& b = calls_of(absent);
        for (std::size_t n = 0; n < std::min(a.size(), b.size()); ++n)
            if (a[n]->stack != b[n]->stack)
                return {{one.recording, a[n]}, {&run_[static_cast<std::size_t>(absent)], b[n]}};
        return {};
    }

    /// True if its values were compared with its definition.
    bool check_call(const Members& members, Verdict::Count& count) {
        const std::string& name = members[0].call->name;
        for (const Member& member : members)
            check_memory(member);
        const bool seen = std::ranges::all_of(members, [](const Member& member) {
            return member.call->given && member.call->taken && member.call->failed.empty();
        });
        if (!seen)
            return false;
        if (name == "ALLREDUCE" || name == "ALLREDUCE_COALESCED") {
            if (!check_copies(members))
                return true;
            return check_reduction(members, {0}, count, [](std::size_t part, std::size_t) { return part; });
        }
        if (name == "REDUCE") {
            const auto root = static_cast<std::size_t>(members[0].call->root);
            return root < members.size() &&
                   check_reduction(members, {root}, count,
                                   [](std::size_t part, std::size_t) { return part; });
        }
        if (reductions.contains(name)) {
            std::vector<std::size_t> all(members.size());
            for (std::size_t i = 0; i < all.size(); ++i)
                all[i] = i;
            return check_reduction(members, all, count, [&](std::size_t part, std::size_t member) {
                return part * members.size() + member;
            });
        }
        return check_moved(members);
    }

    void check_memory(const Member& member) {
        if (member.call->changed.empty())
            return;
        const bool input = member.call->changed[0] == "input";
        Finding& finding =
            add("overwritten", member,
                std::string("its ") + (input ? "input" : "output") + " on rank " +
                    std::to_string(member.rank()) + " was overwritten before the work was waited for",
                {member.rank()});
        finding.details.push_back(caller_of(member));
    }

    /// What every rank is given is the same on all.
    bool check_copies(const Members& members) {
        for (std::size_t part = 0; part < members[0].call->taken->parts.size(); ++part) {
            std::vector<std::uint64_t> prints;
            for (const Member& member : members) {
                if (member.call->taken->parts.size() <= part)
                    return true;
                prints.push_back(member.call->taken->parts[part].print);
            }
            const std::vector<int> odd = odd_ones(prints);
            if (odd.empty())
                continue;
            std::vector<int> ranks;
            for (const int one : odd)
                ranks.push_back(members[static_cast<std::size_t>(one)].rank());
            const Member& wrong = members[static_cast<std::size_t>(odd[0])];
            const auto right = std::ranges::find_if(members, [&](const Member& one) {
                return one.call->taken->parts[part].print != wrong.call->taken->parts[part].print;
            });
            const bool overwritten =
                wrong.call->asynchronous && wrong.call->written && !right->call->written;
            Finding& finding =
                add(overwritten ? "overwritten" : "copy", members[0],
                    "the result of " + listed(ranks) + " differs from the others'" +
                        (overwritten ? "; it was written to before the work was waited for" : ""),
                    ranks);
            compare_values(finding, *right, wrong, part, part);
            finding.details.push_back(caller_of(wrong));
            return false;
        }
        return true;
    }

    /// The first sampled value that two ranks hold differently goes into the finding.
    void compare_values(Finding& finding, const Member& right, const Member& wrong, std::size_t a,
                        std::size_t b, bool given = false) {
        const Type* type = find_type(type_of(*wrong.call));
        if (type == nullptr)
            return;
        const Operands& expected = given ? *right.call->given : *right.call->taken;
        const Sample one(*right.recording, expected, type->size, right.call->place);
        const Sample other(*wrong.recording, *wrong.call->taken, type->size, wrong.call->place);
        const auto x = one.part(a);
        const auto y = other.part(b);
        const auto differs = std::ranges::mismatch(x, y).in1 - x.begin();
        if (x.size() != y.size() || differs == static_cast<std::ptrdiff_t>(x.size()))
            return;
        const auto at = static_cast<Index>(differs) / static_cast<Index>(type->size);
        finding.index = sampled_indices(expected.parts[a].count, right.recording->block,
                                        right.call->place)[static_cast<std::size_t>(at)];
        finding.found = value_at(*type, y, at);
        finding.expected = value_at(*type, x, at);
        finding.what += ": value " + std::to_string(*finding.index) + " is " + shortest(*finding.found) +
                        " in place of " + shortest(*finding.expected);
    }

    /// `part_of` says which part of each rank's input a result is of.
    bool check_reduction(const Members& members, const std::vector<std::size_t>& receivers,
                         Verdict::Count& count,
                         const std::function<std::size_t(std::size_t, std::size_t)>& part_of) {
        const Call& call = *members[0].call;
        const Type* type = find_type(type_of(call));
        const std::optional<Op> declared = find_op(call.op);
        const bool complex = call.op != "SUM" && call.op != "AVG" && type_of(call).starts_with("complex");
        if (type == nullptr || (!call.op.empty() && !declared) || complex)
            return false;
        std::vector<Sample> inputs;
        for (const Member& member : members)
            inputs.emplace_back(*member.recording, *member.call->given, type->size, call.place);
        for (const std::size_t receiver : receivers) {
            const Member& to = members[receiver];
            const Sample results(*to.recording, *to.call->taken, type->size, call.place);
            for (std::size_t part = 0; part < to.call->taken->parts.size(); ++part) {
                std::vector<std::span<const std::byte>> x;
                const std::span<const std::byte> y = results.part(part);
                for (std::size_t i = 0; i < inputs.size(); ++i) {
                    const std::size_t given = part_of(part, receiver);
                    if (members[i].call->given->parts.size() <= given ||
                        inputs[i].part(given).size() != y.size())
                        return false;
                    x.push_back(inputs[i].part(given));
                }
                if (!judge(members, to, part, *type, explain(*type, x, y), declared, count))
                    return true;
            }
        }
        return true;
    }

    bool judge(const Members& members, const Member& to, std::size_t part, const Type& type,
               const Explanation& explanation, std::optional<Op> declared, Verdict::Count& count) {
        const Op op = declared.value_or(explanation.closest());
        if (explanation.holds(op)) {
            // Zeros are the sum of zeros and their mean, and of few values the one may be the other by
            // chance.
            if (declared || explanation.values > 0)
                note_op(count, declared, explanation);
            return declared || agrees(to, explanation, type);
        }
        const Index count_of_part = to.call->taken->parts[part].count;
        const std::string of = declared ? std::string(name(*declared)) + " was called, and " : "";
        if (declared && explanation.any()) {
            add("op", to, of + "the result is " + alternatives(explanation) + " of what the ranks gave",
                {to.rank()});
        } else if (explanation.factor) {
            const double factor = *explanation.factor;
            Finding& finding =
                add("op", to,
                    of + "the result is the sum times " + shortest(static_cast<float>(factor)) +
                        meaning(factor, static_cast<double>(members.size()), count_of_part),
                    {to.rank()});
            finding.factor = factor;
        } else {
            const Outcome& outcome = explanation.of[static_cast<std::size_t>(op)];
            Finding& finding = add("value", to, "", {to.rank()});
            finding.index = sampled_indices(count_of_part, to.recording->block,
                                            to.call->place)[static_cast<std::size_t>(outcome.first)];
            finding.found = outcome.found;
            finding.expected = outcome.expected;
            finding.bound = outcome.bound;
            finding.what =
                "value " + std::to_string(*finding.index) + " on rank " + std::to_string(to.rank()) +
                " is " + shortest(outcome.found) + ", and no order gives it: " + std::string(name(op)) +
                " is " + shortest(outcome.expected) + " within " +
                shortest(static_cast<float>(outcome.bound)) + "; " + std::to_string(outcome.wrong) +
                " of " + std::to_string(explanation.values) + " values seen are wrong";
        }
        for (const Member& member : members)
            if (member.call->asynchronous && member.call->written)
                verdict_.findings.back().details.push_back(
                    "rank " + std::to_string(member.rank()) +
                    " wrote to the tensor before it had waited for the work");
        verdict_.findings.back().details.push_back(caller_of(to));
        return false;
    }

    /// Where no hook and no method saw the op: a large tensor of one place in a program is always summed,
    /// or always averaged.
    bool agrees(const Member& to, const Explanation& explanation, const Type& type) {
        constexpr Index enough = 16;
        const bool sum = explanation.holds(Op::sum);
        const bool mean = explanation.holds(Op::mean);
        if (explanation.values < enough || sum == mean)
            return true;
        const auto key = std::make_tuple(to.call->name, std::string(type.name), values_in(to.call->inputs),
                                         to.call->stack);
        ops_[key].push_back({to, sum});
        return true;
    }

    /// One that is another than all the rest of its place: many calls are needed to know what is usual
    /// there.
    void check_places() {
        constexpr std::size_t usual = 8;
        for (const auto& [key, seen] : ops_) {
            const auto sums = static_cast<std::size_t>(std::ranges::count(seen, true, &Reduced::sum));
            const bool odd = 2 * sums < seen.size();
            const std::size_t odd_count = odd ? sums : seen.size() - sums;
            if (odd_count == 0 || seen.size() < usual * odd_count)
                continue;
            const Member& to = std::ranges::find(seen, odd, &Reduced::sum)->member;
            Finding& finding = add("op", to,
                                   std::string("the result is the ") + (odd ? "sum" : "mean") +
                                       ", and those of " + std::to_string(seen.size() - odd_count) +
                                       " other calls from the same place are the " + (odd ? "mean" : "sum"),
                                   {to.rank()});
            finding.details.push_back(caller_of(to));
        }
        ops_.clear();
    }

    static void note_op(Verdict::Count& count, std::optional<Op> declared, const Explanation& explanation) {
        const std::string op = declared                     ? std::string(name(*declared))
                               : explanation.holds(Op::sum) ? "SUM"
                                                            : std::string(name(explanation.closest()));
        if (count.ops.find(op) == std::string::npos)
            count.ops += (count.ops.empty() ? "" : ", ") + op;
    }

    static std::string alternatives(const Explanation& explanation) {
        for (const auto& [op, text] : {std::pair{Op::sum, "the sum"},
                                       {Op::mean, "the mean"},
                                       {Op::max, "the maximum"},
                                       {Op::min, "the minimum"}})
            if (explanation.holds(op))
                return text;
        return std::string("the ") + std::string(name(explanation.closest()));
    }

    static std::string meaning(double factor, double ranks, Index count) {
        const auto is = [&](double value) { return std::abs(factor / value - 1.0) < 1e-2; };
        const std::string of_ranks = "the number of ranks";
        if (is(1.0 / static_cast<double>(count)))
            return ": it was divided by " + std::to_string(count) +
                   ", the number of values, and the ranks are " + shortest(ranks);
        if (is(ranks))
            return ": it was multiplied by " + of_ranks;
        if (is(1.0 / (ranks * ranks)))
            return ": it was divided twice by " + of_ranks;
        if (const double times = 1.0 / factor / ranks;
            times > 1.5 && std::abs(times - std::round(times)) < 1e-2 * times)
            return ": it was divided by " + shortest(std::round(times)) + " times " + of_ranks;
        if (const double by = 1.0 / factor; std::abs(by - std::round(by)) < 1e-2 * by)
            return ": it was divided by " + shortest(std::round(by)) + ", and the ranks are " +
                   shortest(ranks);
        return "";
    }

    /// What is moved arrives as it was sent: whole fingerprints are compared, whatever the sample is.
    bool check_moved(const Members& members) {
        const std::string& name = members[0].call->name;
        const std::size_t size = members.size();
        const auto root = static_cast<std::size_t>(std::max(0, members[0].call->root));
        struct Source {
            std::size_t member;
            std::size_t part;
        };
        std::function<Source(std::size_t, std::size_t)> from; // a receiver and its part
        if (name == "BROADCAST")
            from = [&](std::size_t, std::size_t part) { return Source{root, part}; };
        else if (name == "ALLGATHER" || name == "ALLGATHER_BASE" ||
                 name == "ALLGATHER_INTO_TENSOR_COALESCED" || name == "GATHER")
            from = [&](std::size_t, std::size_t part) { return Source{part % size, part / size}; };
        else if (name == "SCATTER")
            from = [&](std::size_t receiver, std::size_t) { return Source{root, receiver}; };
        else if (name == "ALLTOALL" || name == "ALLTOALL_BASE")
            from = [&](std::size_t receiver, std::size_t part) { return Source{part, receiver}; };
        else
            return name == "BARRIER";
        bool any = false;
        for (std::size_t receiver = 0; receiver < size; ++receiver)
            for (std::size_t part = 0; part < members[receiver].call->taken->parts.size(); ++part) {
                const Source source = from(receiver, part);
                if (source.member >= size ||
                    members[source.member].call->given->parts.size() <= source.part)
                    return false;
                any = true;
                if (!arrived(members[source.member], source.part, members[receiver], part))
                    return true;
            }
        return any;
    }

    bool arrived(const Member& sender, std::size_t given, const Member& receiver, std::size_t taken) {
        const Part& sent = sender.call->given->parts[given];
        const Part& got = receiver.call->taken->parts[taken];
        if (sent.count == got.count && sent.print == got.print)
            return true;
        Finding& finding = add("moved", receiver,
                               "rank " + std::to_string(receiver.rank()) + " has not what rank " +
                                   std::to_string(sender.rank()) + " gave",
                               {sender.rank(), receiver.rank()});
        if (sent.count != got.count)
            finding.what += ": " + std::to_string(got.count) + " values of " + std::to_string(sent.count);
        else
            compare_values(finding, sender, receiver, given, taken, true);
        if (sender.call->asynchronous && sender.call->written)
            finding.details.push_back("rank " + std::to_string(sender.rank()) +
                                      " wrote to the tensor before it had waited for the work");
        finding.details.push_back(caller_of(sender));
        finding.details.push_back(caller_of(receiver));
        return false;
    }

    void check_messages(const JoinedGroup::Queue& queue) {
        for (std::size_t n = 0; n < queue.sent.size(); ++n) {
            const Member& sender = queue.sent[n];
            Verdict::Count& count = verdict_.counts["message " + type_of(*sender.call)];
            ++count.calls;
            check_memory(sender);
            if (n >= queue.received.size())
                continue;
            const Member& receiver = queue.received[n];
            check_memory(receiver);
            if (!sender.call->given || !receiver.call->taken)
                continue;
            ++count.checked;
            if (!arrived(sender, 0, receiver, 0))
                return;
        }
    }

    /// Copies of a parameter that began alike are stepped with one gradient.
    void check_steps() {
        std::map<std::tuple<std::string, std::string, std::vector<Index>>, bool> copies;
        std::size_t steps = run_.front().steps.size();
        for (const Recording& recording : run_)
            steps = std::min(steps, recording.steps.size());
        for (std::size_t n = 0; n < steps && run_.size() > 1; ++n) {
            struct Held {
                std::vector<int> ranks;
                std::vector<std::string> values;
                std::vector<std::string> gradients;
            };
            std::map<std::tuple<std::string, std::string, std::vector<Index>>, Held> all;
            for (const Recording& recording : run_)
                for (const Step::Parameter& parameter : recording.steps[n].parameters) {
                    Held& held = all[{parameter.name, parameter.replica, parameter.sizes}];
                    held.ranks.push_back(recording.rank);
                    held.values.push_back(parameter.value);
                    held.gradients.push_back(parameter.gradient);
                }
            ++verdict_.steps;
            for (const auto& [key, held] : all) {
                const auto alike = [](const std::vector<std::string>& texts) {
                    return std::ranges::all_of(texts,
                                               [&](const std::string& text) { return text == texts[0]; });
                };
                const bool copied = copies.try_emplace(key, alike(held.values)).first->second;
                if (!copied || alike(held.gradients))
                    continue;
                add_gradient(run_.front().steps[n], std::get<0>(key), held.ranks);
                copies[key] = false; // told once
            }
        }
    }

    void add_gradient(const Step& step, const std::string& name, const std::vector<int>& ranks) {
        Finding finding{step.after,
                        "gradient",
                        "step " + std::to_string(step.step + 1) + ", gradient of " + one_line(name),
                        "it was never reduced over " + listed(ranks) +
                            ": each steps with another, and the parameters began alike",
                        {},
                        ranks};
        std::string caller;
        for (const std::string& frame : step.stack)
            caller += (caller.empty() ? "" : ", from ") + frame;
        finding.details.push_back("rank " + std::to_string(run_.front().rank) + ": " + caller);
        verdict_.findings.push_back(std::move(finding));
    }

    const std::vector<Recording>& run_;
    const JoinedGroup* group_ = nullptr;
    Verdict verdict_;
    struct Reduced {
        Member member;
        bool sum;
    };
    std::map<std::tuple<std::string, std::string, Index, std::vector<std::string>>, std::vector<Reduced>>
        ops_;
};

} // namespace

Verdict check(const std::vector<Recording>& run) {
    Verdict verdict = Checker(run).check();
    std::set<std::string> groups;
    Index calls = 0;
    for (const Recording& recording : run) {
        for (const auto& [number, group] : recording.groups)
            groups.insert(listed(group.ranks) + " " + std::to_string(group.ordinal));
        calls += static_cast<Index>(recording.calls.size());
        if (!recording.ended)
            verdict.notes.push_back(recording.path.string() +
                                    " has no end: the process was killed or still runs; its " +
                                    count_of(recording.calls.size(), "call") + " before that " +
                                    (recording.torn ? "(the last record is torn) " : "") + "were checked");
        for (const Call& call : recording.calls)
            if (!call.failed.empty())
                verdict.notes.push_back("rank " + std::to_string(recording.rank) + ", call " +
                                        std::to_string(call.number) + ", " + text_of(call) +
                                        ", failed: " + call.failed);
            else if (!call.unseen.empty())
                verdict.notes.push_back("rank " + std::to_string(recording.rank) + ", call " +
                                        std::to_string(call.number) + ": " + call.unseen);
    }
    if (!run.front().hooks)
        verdict.notes.push_back("torch " + one_line(run.front().torch) +
                                " was watched without hooks: what C++ calls by itself, such as "
                                "DistributedDataParallel's reducer, is not in the files; give it a comm "
                                "hook in Python (default_hooks.allreduce_hook)");
    verdict.run = count_of(run.size(), "rank") + ", torch " + one_line(run.front().torch) + ", " +
                  count_of(groups.size(), "group") + ", " +
                  count_of(static_cast<std::size_t>(calls), "call") + " in all";
    return verdict;
}

} // namespace truestep::verify::collectives
