#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <truestep/trace/fingerprint.hpp>
#include <truestep/verify/verdict.hpp>

/// Checks results that must be the same on all ranks: against the reference, and between ranks.
namespace truestep::verify {

/// The result for one vector, or for the fingerprints of all ranks' vectors.
struct Finding {
    int rank = Divergence::all_ranks; ///< whose copy
    Comparison comparison = {};       ///< for fingerprints without pairs: they have no index
    std::string note = {};
    bool between_ranks =
        false; ///< with another rank's copy; the comparison with the reference is a separate finding
    std::optional<Index> eligible = std::nullopt; ///< for fingerprints, which are not values
};

/// The fingerprint of the reference's own vector, which only EXACT has.
struct ReferenceFingerprint {
    std::uint64_t value = 0;
    bool nonzero = false; ///< of the vector: one of zeros proves little
};

/// The ranks that differ from the majority. In a tie rank 0's value counts as the majority's.
[[nodiscard]] std::vector<int> odd_ones(const std::vector<std::uint64_t>& held);
/// Text such as "rank 2 holds", "ranks 0 and 2 hold".
[[nodiscard]] std::string ranks_text(const std::vector<int>& ranks);

/// For each copy the first rank that holds the same bits.
[[nodiscard]] std::vector<std::uint64_t> first_alike(const std::vector<std::vector<float>>& copies);
[[nodiscard]] std::vector<std::uint64_t> first_alike(const std::vector<std::vector<std::uint8_t>>& copies);
[[nodiscard]] Comparison compare_bits(const std::vector<float>& expected, const std::vector<float>& actual,
                                      Index size);
[[nodiscard]] Comparison compare_bits(const std::vector<std::uint8_t>& expected,
                                      const std::vector<std::uint8_t>& actual, Index size);

/// `recorded` is the fingerprint of the vector that is recorded with them, if any.
[[nodiscard]] Finding judge_fingerprints(const std::vector<std::uint64_t>& fingerprints,
                                         const std::optional<ReferenceFingerprint>& reference,
                                         const std::optional<std::uint64_t>& recorded, bool has_copies);

/// The notes of a verdict on the replicas: what was compared, and what was taken on trust.
[[nodiscard]] std::vector<std::string> replica_notes(const trace::ReplicaCounts& counts, int workers);

/// Compares every recorded copy with the reference by `compare`, and bit for bit with the others;
/// the fingerprints likewise. `size` is the number of coordinates.
template <class Element, class Compare>
[[nodiscard]] std::vector<Finding> judge(const trace::ReplicatedValues<Element>& recorded, Index size,
                                         const std::optional<ReferenceFingerprint>& reference,
                                         const Compare& compare) {
    const auto fingerprint_of = [](const std::vector<Element>& values) {
        return trace::fingerprint(std::span<const Element>(values));
    };
    std::vector<Finding> findings;
    const std::vector<std::uint64_t> alike = first_alike(recorded.copies);
    const std::vector<int> odd = odd_ones(alike);
    for (std::size_t rank = 0; rank < alike.size(); ++rank)
        findings.push_back(
            {odd.empty() ? Divergence::all_ranks : static_cast<int>(rank),
             alike[rank] == rank ? compare(recorded.copies[rank]) : findings[alike[rank]].comparison,
             odd.empty() ? "" : "not all ranks hold the same: " + ranks_text(odd) + " not what most hold"});
    if (recorded.shared) {
        Finding of_all{Divergence::all_ranks, compare(*recorded.shared), {}};
        if (recorded.fingerprints && recorded.copies.empty()) {
            // For example, the vector is rank 0's while the others hold something else: then rank 0
            // is wrong.
            std::vector<int> holders;
            for (std::size_t rank = 0; rank < recorded.fingerprints->size(); ++rank)
                if ((*recorded.fingerprints)[rank] == fingerprint_of(*recorded.shared))
                    holders.push_back(static_cast<int>(rank));
            if (!holders.empty() && holders.size() < recorded.fingerprints->size()) {
                of_all.rank = holders.front();
                of_all.note = "by the fingerprints only " + ranks_text(holders) + " this vector";
            }
        }
        findings.push_back(std::move(of_all));
    }

    std::size_t usual = 0; // a rank of the majority
    while (usual < odd.size() && odd[usual] == static_cast<int>(usual))
        ++usual;
    for (const int rank : odd)
        if (const auto& copy = recorded.copies[static_cast<std::size_t>(rank)];
            findings[static_cast<std::size_t>(rank)].comparison.ok())
            findings.push_back({rank, compare_bits(recorded.copies[usual], copy, size),
                                ranks_text({rank}) + " not the bits that rank " + std::to_string(usual) +
                                    " holds, which have to be the same on all ranks at every level",
                                true});
    if (recorded.shared && !recorded.copies.empty() && findings[alike.size()].comparison.ok())
        if (Comparison apart = compare_bits(recorded.copies[usual], *recorded.shared, size); !apart.ok())
            findings.push_back(
                {Divergence::all_ranks, std::move(apart),
                 "what is recorded once for all ranks is not what rank " + std::to_string(usual) + " holds",
                 true});

    if (recorded.fingerprints) {
        std::optional<std::uint64_t> beside;
        if (recorded.shared || !recorded.copies.empty())
            beside = fingerprint_of(recorded.shared ? *recorded.shared : recorded.copies[usual]);
        findings.push_back(
            judge_fingerprints(*recorded.fingerprints, reference, beside, !recorded.copies.empty()));
    }
    return findings;
}

} // namespace truestep::verify
