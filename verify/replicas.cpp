// Checks that results are equal on all ranks, by copies or fingerprints, and names the odd ranks.
#include <truestep/verify/replicas.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>

namespace truestep::verify {

namespace {

template <class Element>
std::vector<std::uint64_t> first_with_the_same_bits(const std::vector<std::vector<Element>>& copies) {
    const auto same = [](const std::vector<Element>& a, const std::vector<Element>& b) {
        return a.size() == b.size() &&
               (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Element)) == 0);
    };
    std::vector<std::uint64_t> first;
    for (std::size_t rank = 0; rank < copies.size(); ++rank) {
        std::size_t other = 0;
        while (!same(copies[other], copies[rank]))
            ++other; // ends at the rank itself
        first.push_back(other);
    }
    return first;
}

std::vector<int> ranks_without(const std::vector<std::uint64_t>& held, std::uint64_t value) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < held.size(); ++rank)
        if (held[rank] != value)
            ranks.push_back(static_cast<int>(rank));
    return ranks;
}

std::string results_text(Index count) {
    return std::to_string(count) + (count == 1 ? " result" : " results");
}

} // namespace

std::vector<int> odd_ones(const std::vector<std::uint64_t>& held) {
    if (held.empty())
        return {};
    std::map<std::uint64_t, int> counts;
    for (const std::uint64_t value : held)
        ++counts[value];
    std::uint64_t usual = held.front();
    int most = 0;
    bool tie = false;
    for (const auto& [value, count] : counts) {
        tie = count == most || (count < most && tie);
        if (count > most) {
            most = count;
            usual = value;
        }
    }
    return ranks_without(held, tie ? held.front() : usual);
}

std::string ranks_text(const std::vector<int>& ranks) {
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    for (std::size_t i = 0; i < ranks.size(); ++i)
        text += (i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ") + std::to_string(ranks[i]);
    return text + (ranks.size() == 1 ? " holds" : " hold");
}

std::vector<std::uint64_t> first_alike(const std::vector<std::vector<float>>& copies) {
    return first_with_the_same_bits(copies);
}

std::vector<std::uint64_t> first_alike(const std::vector<std::vector<std::uint8_t>>& copies) {
    return first_with_the_same_bits(copies);
}

Comparison compare_bits(const std::vector<float>& expected, const std::vector<float>& actual, Index) {
    return compare(expected, actual, Level::exact());
}

Comparison compare_bits(const std::vector<std::uint8_t>& expected, const std::vector<std::uint8_t>& actual,
                        Index size) {
    return compare_masks(expected, actual, size);
}

Finding judge_fingerprints(const std::vector<std::uint64_t>& fingerprints,
                           const std::optional<ReferenceFingerprint>& reference,
                           const std::optional<std::uint64_t>& recorded, bool has_copies) {
    const std::vector<int> odd = odd_ones(fingerprints);
    // The reference knows which rank is wrong. Without it the majority decides, and if all agree,
    // the recorded vector that they claim to represent.
    std::vector<int> wrong = odd;
    std::string note = odd.empty() ? "" : "by the fingerprints " + ranks_text(odd) + " not what most hold";
    if (reference) {
        wrong = ranks_without(fingerprints, reference->value);
        note = "by the fingerprints " + ranks_text(wrong) + " not the reference's vector" +
               (odd.empty() || odd == wrong ? "" : ", and " + ranks_text(odd) + " not what most hold");
    } else if (odd.empty() && recorded) {
        wrong = ranks_without(fingerprints, *recorded);
        note = "all fingerprints agree, but differ from that of the vector recorded beside them";
    }
    Finding finding;
    const auto ranks = static_cast<Index>(fingerprints.size());
    finding.comparison.compared = reference || recorded ? ranks : 0;
    finding.comparison.mismatched = static_cast<Index>(wrong.size());
    finding.comparison.nonzero = reference && reference->nonzero ? ranks : 0;
    finding.eligible = reference ? ranks : 0;
    if (wrong.empty())
        return finding;
    if (static_cast<Index>(wrong.size()) < ranks)
        finding.rank = wrong.front();
    else if (!odd.empty())
        finding.rank = odd.front();
    finding.note = note;
    if (!has_copies)
        finding.note += "; which index differs needs a trace with copies: record each rank's own vector "
                        "(--replicas copies)";
    return finding;
}

std::vector<std::string> replica_notes(const trace::ReplicaCounts& counts, int workers) {
    if (workers == 1 || counts.copies + counts.fingerprints + counts.once == 0)
        return {};
    if (counts.copies + counts.fingerprints == 0)
        return {std::string(replicas_not_recorded)};
    const std::string where = " compared on all " + std::to_string(workers) + " ranks";
    std::vector<std::string> notes;
    if (counts.copies > 0)
        notes.push_back("replicas: " + results_text(counts.copies) + where);
    if (counts.fingerprints > 0)
        notes.push_back("replicas: fingerprints of " + results_text(counts.fingerprints) + where);
    if (counts.once > 0)
        notes.push_back("replicas: " + results_text(counts.once) +
                        " recorded as one copy of what has to be the same on all ranks");
    return notes;
}

} // namespace truestep::verify
