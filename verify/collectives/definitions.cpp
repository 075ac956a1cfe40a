// Holds each collective's calls to its definition: copies, moved parts and reductions.
#include "definitions.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/verify/replicas.hpp>

namespace truestep::verify::collectives {

namespace {

/// The sampled values of a part, among those of all parts of the operands.
class Sample {
  public:
    Sample(const Member& member, const Operands& operands, std::size_t size)
        : bytes_(sampled_values(*member.recording, operands)) {
        std::size_t begin = 0;
        for (const Part& part : operands.parts) {
            const Index block = member.recording->block;
            const auto count = block == 1 ? static_cast<std::size_t>(part.count)
                                          : sampled_indices(part.count, block, member.call->place).size();
            parts_.push_back({begin, size * count});
            begin += size * count;
        }
        if (begin != bytes_.size())
            throw Error(member.recording->path.string() + ": call " + std::to_string(member.call->number) +
                        " has other values than its shapes and sample tell; the file is damaged");
    }

    [[nodiscard]] std::span<const std::byte> part(std::size_t at) const {
        return std::span(bytes_).subspan(parts_[at].first, parts_[at].second);
    }

  private:
    std::vector<std::byte> bytes_;
    std::vector<std::pair<std::size_t, std::size_t>> parts_;
};

Index index_of(const Member& member, const Part& part, Index at) {
    return sampled_indices(part.count, member.recording->block,
                           member.call->place)[static_cast<std::size_t>(at)];
}

std::string alternative(const Explanation& explanation) {
    for (const auto& [op, text] : {std::pair{Op::sum, "the sum"},
                                   {Op::mean, "the mean"},
                                   {Op::max, "the maximum"},
                                   {Op::min, "the minimum"}})
        if (explanation.holds(op))
            return text;
    return "the " + std::string(name(explanation.closest()));
}

/// What a factor of the sum may come from.
std::string meaning(double factor, double ranks, Index count) {
    const auto near = [](double value, double other) { return std::abs(value / other - 1.0) < 1e-2; };
    const double by = 1.0 / factor;
    if (near(by, static_cast<double>(count)))
        return ": it was divided by " + std::to_string(count) +
               ", the number of values, and the ranks are " + shortest(ranks);
    if (near(factor, ranks))
        return ": it was multiplied by the number of ranks";
    if (near(by, ranks * ranks))
        return ": it was divided twice by the number of ranks";
    if (by / ranks > 1.5 && near(by / ranks, std::round(by / ranks)))
        return ": it was divided by " + shortest(std::round(by / ranks)) + " times the number of ranks";
    if (by > 1.5 && near(by, std::round(by)))
        return ": it was divided by " + shortest(std::round(by)) + ", and the ranks are " + shortest(ranks);
    return "";
}

void note_op(Verdict::Count& count, const std::string& op) {
    if (count.ops.find(op) == std::string::npos)
        count.ops += (count.ops.empty() ? "" : ", ") + op;
}

} // namespace

bool is_reduction(const Call& call) {
    return call.name.starts_with("ALLREDUCE") || call.name.starts_with("REDUCE");
}

const std::string& type_of(const Call& call) {
    static const std::string none;
    return !call.inputs.empty() ? call.inputs[0].type : !call.outputs.empty() ? call.outputs[0].type : none;
}

Index values_in(const std::vector<Shape>& shapes) {
    return std::accumulate(shapes.begin(), shapes.end(), Index{0}, [](Index all, const Shape& shape) {
        return all + std::accumulate(shape.sizes.begin(), shape.sizes.end(), Index{1}, std::multiplies<>());
    });
}

Finding& Definitions::add(const std::string& kind, const Member& first, const std::string& what,
                          std::vector<int> ranks) {
    Finding finding;
    finding.at = first.call->number;
    finding.kind = kind;
    finding.where = "call " + std::to_string(first.call->number) + " of rank " +
                    std::to_string(first.rank()) + ", " + text_of(*first.call) + " over " + listed(ranks_);
    finding.what = what;
    finding.ranks = std::move(ranks);
    verdict_.findings.push_back(std::move(finding));
    return verdict_.findings.back();
}

bool Definitions::check(const Members& members, Verdict::Count& count) {
    const std::string& name = members[0].call->name;
    for (const Member& member : members)
        check_memory(member);
    if (name == "BARRIER")
        return true;
    if (!std::ranges::all_of(members,
                             [](const Member& member) { return member.call->given && member.call->taken; }))
        return false;
    const PartOf same = [](std::size_t part, std::size_t) { return part; };
    if (name.starts_with("ALLREDUCE"))
        return !check_copies(members) || check_reduction(members, {0}, count, same);
    if (name == "REDUCE") {
        const auto root = static_cast<std::size_t>(members[0].call->root);
        return root < members.size() && check_reduction(members, {root}, count, same);
    }
    if (!is_reduction(*members[0].call))
        return check_moved(members);
    std::vector<std::size_t> all(members.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    return check_reduction(members, all, count, [&](std::size_t part, std::size_t receiver) {
        return part * members.size() + receiver;
    });
}

void Definitions::check_memory(const Member& member) {
    if (member.call->overwritten)
        add("overwritten", member,
            "its input on rank " + std::to_string(member.rank()) +
                " was overwritten before the work was waited for",
            {member.rank()})
            .details.push_back(caller_of(member));
}

/// What every rank is given is the same on all.
bool Definitions::check_copies(const Members& members) {
    for (std::size_t part = 0; part < members[0].call->taken->parts.size(); ++part) {
        std::vector<std::uint64_t> prints;
        for (const Member& member : members)
            if (part < member.call->taken->parts.size())
                prints.push_back(member.call->taken->parts[part].print);
        if (prints.size() < members.size())
            return true;
        const std::vector<int> odd = odd_ones(prints);
        if (odd.empty())
            continue;
        std::vector<int> ranks;
        for (const int one : odd)
            ranks.push_back(members[static_cast<std::size_t>(one)].rank());
        const auto first = static_cast<std::size_t>(odd[0]);
        const auto right = static_cast<std::size_t>(
            std::ranges::find_if(prints, [&](std::uint64_t print) { return print != prints[first]; }) -
            prints.begin());
        const bool overwritten = members[first].call->written && !members[right].call->written;
        Finding& finding =
            add(overwritten ? "overwritten" : "copy", members[0],
                "the result of " + listed(ranks) + " differs from the others'" +
                    (overwritten ? "; it was written to before the work was waited for" : ""),
                ranks);
        compare_values(finding, members[right], *members[right].call->taken, part, members[first], part);
        finding.details.push_back(caller_of(members[first]));
        return false;
    }
    return true;
}

/// The first sampled value that two ranks hold differently goes into the finding.
void Definitions::compare_values(Finding& finding, const Member& right, const Operands& expected,
                                 std::size_t a, const Member& wrong, std::size_t b) {
    const Type* type = find_type(type_of(*wrong.call));
    if (type == nullptr)
        return;
    const Sample one(right, expected, type->size);
    const Sample other(wrong, *wrong.call->taken, type->size);
    const auto x = one.part(a);
    const auto y = other.part(b);
    const auto byte = static_cast<std::size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
    if (x.size() != y.size() || byte == x.size())
        return;
    const auto at = static_cast<Index>(byte / type->size);
    finding.index = index_of(right, expected.parts[a], at);
    finding.found = value_at(*type, y, at);
    finding.expected = value_at(*type, x, at);
    finding.what += ": value " + std::to_string(*finding.index) + " is " + shortest(*finding.found) +
                    " in place of " + shortest(*finding.expected);
}

bool Definitions::check_reduction(const Members& members, const std::vector<std::size_t>& receivers,
                                  Verdict::Count& count, const PartOf& part_of) {
    const Call& call = *members[0].call;
    const Type* type = find_type(type_of(call));
    const bool unknown = !call.op.empty() && (!find_op(call.op) || (type_of(call).starts_with("complex") &&
                                                                    call.op != "SUM" && call.op != "AVG"));
    if (type == nullptr || unknown)
        return false;
    std::vector<Sample> inputs;
    for (const Member& member : members)
        inputs.emplace_back(member, *member.call->given, type->size);
    for (const std::size_t receiver : receivers) {
        const Member& to = members[receiver];
        const Sample results(to, *to.call->taken, type->size);
        for (std::size_t part = 0; part < to.call->taken->parts.size(); ++part) {
            std::vector<std::span<const std::byte>> x;
            const std::size_t given = part_of(part, receiver);
            for (std::size_t i = 0; i < inputs.size(); ++i) {
                if (members[i].call->given->parts.size() <= given ||
                    inputs[i].part(given).size() != results.part(part).size())
                    return false;
                x.push_back(inputs[i].part(given));
            }
            if (!judge(members, to, part, *type, explain(*type, x, results.part(part)), count))
                return true;
        }
    }
    return true;
}

bool Definitions::judge(const Members& members, const Member& to, std::size_t part, const Type& type,
                        const Explanation& explanation, Verdict::Count& count) {
    const std::optional<Op> declared = find_op(to.call->op);
    const Op op = declared.value_or(explanation.closest());
    if (explanation.holds(op)) {
        // Zeros are the sum of zeros and their mean, and of few values the one may be the other by chance.
        constexpr Index enough = 16;
        const bool sum = explanation.holds(Op::sum);
        if (explanation.values > 0)
            note_op(count, std::string(declared || !sum ? name(op) : name(Op::sum)));
        if (!declared && explanation.values >= enough && sum != explanation.holds(Op::mean))
            places_[{to.call->name, std::string(type.name), values_in(to.call->inputs), to.call->stack}]
                .push_back({to, sum});
        return true;
    }
    // An average of gloo's counts as a write itself.
    std::vector<int> writers;
    for (const Member& member : members)
        if (member.call->written && to.call->op != "AVG")
            writers.push_back(member.rank());
    const Part& whole = to.call->taken->parts[part];
    Finding& finding = add(writers.empty() ? "op" : "overwritten", to,
                           declared ? std::string(name(*declared)) + " was called, and " : "", {to.rank()});
    if (declared && explanation.any()) {
        finding.what += "the result is " + alternative(explanation) + " of what the ranks gave";
    } else if (explanation.factor) {
        finding.factor = explanation.factor;
        finding.what += "the result is the sum times " + shortest(static_cast<float>(*explanation.factor)) +
                        meaning(*explanation.factor, static_cast<double>(members.size()), whole.count);
    } else {
        const Outcome& outcome = explanation.of[static_cast<std::size_t>(op)];
        finding.kind = writers.empty() ? "value" : finding.kind;
        finding.index = index_of(to, whole, outcome.first);
        finding.found = outcome.found;
        finding.expected = outcome.expected;
        finding.bound = outcome.bound;
        finding.what += "value " + std::to_string(*finding.index) + " on rank " +
                        std::to_string(to.rank()) + " is " + shortest(outcome.found) +
                        ", and no order gives it: " + std::string(name(op)) + " is " +
                        shortest(outcome.expected) + " within " +
                        shortest(static_cast<float>(outcome.bound)) + "; " + std::to_string(outcome.wrong) +
                        " of " + std::to_string(explanation.values) + " values seen are wrong";
    }
    if (!writers.empty())
        finding.details.push_back(listed(writers) + " wrote to the tensor before the work was waited for");
    finding.details.push_back(caller_of(to));
    return false;
}

void Definitions::check_places() {
    constexpr std::size_t usual = 8;
    for (const auto& [key, seen] : places_) {
        const auto sums = static_cast<std::size_t>(std::ranges::count(seen, true, &Reduced::sum));
        const bool odd = 2 * sums < seen.size();
        const std::size_t few = odd ? sums : seen.size() - sums;
        if (few == 0 || seen.size() < usual * few)
            continue;
        const Member& to = std::ranges::find(seen, odd, &Reduced::sum)->member;
        add("op", to,
            std::string("the result is the ") + (odd ? "sum" : "mean") + ", and those of " +
                std::to_string(seen.size() - few) + " other calls from the same place are the " +
                (odd ? "mean" : "sum"),
            {to.rank()})
            .details.push_back(caller_of(to));
    }
}

bool Definitions::check_moved(const Members& members) {
    const std::string& name = members[0].call->name;
    const std::size_t size = members.size();
    const auto root = static_cast<std::size_t>(std::max(0, members[0].call->root));
    using Source = std::pair<std::size_t, std::size_t>;   // a rank, and the part that it gave
    std::function<Source(std::size_t, std::size_t)> from; // of a receiver and its part
    if (name == "BROADCAST")
        from = [&](std::size_t, std::size_t part) { return Source{root, part}; };
    else if (name == "GATHER" || (name.starts_with("ALLGATHER") && name != "ALLGATHER_COALESCED"))
        from = [&](std::size_t, std::size_t part) { return Source{part % size, part / size}; };
    else if (name == "SCATTER")
        from = [&](std::size_t receiver, std::size_t) { return Source{root, receiver}; };
    else if (name.starts_with("ALLTOALL"))
        from = [&](std::size_t receiver, std::size_t part) { return Source{part, receiver}; };
    else
        return false;
    bool any = false;
    for (std::size_t receiver = 0; receiver < size; ++receiver)
        for (std::size_t part = 0; part < members[receiver].call->taken->parts.size(); ++part) {
            const auto [member, given] = from(receiver, part);
            if (member >= size || members[member].call->given->parts.size() <= given)
                return false;
            any = true;
            if (!arrived(members[member], given, members[receiver], part))
                return true;
        }
    return any;
}

bool Definitions::arrived(const Member& sender, std::size_t given, const Member& receiver,
                          std::size_t taken) {
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
    else if (sender.call->place == receiver.call->place)
        compare_values(finding, sender, *sender.call->given, given, receiver, taken);
    for (const Member& member : {sender, receiver}) {
        if (member.call->written)
            finding.details.push_back("rank " + std::to_string(member.rank()) +
                                      " wrote to the tensor before the work was waited for");
        finding.details.push_back(caller_of(member));
    }
    return false;
}

} // namespace truestep::verify::collectives
