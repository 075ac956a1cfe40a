#pragma once

#include <cstdint>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/local.hpp>

// The functions of a variant: the passes, in one instruction set. The passes of kernels.hpp are
// called through such a table, and so are the parts of selection that touch every coordinate.

namespace truestep::distributed::host {

/// The c of whole words of coordinates: in e where `current` has no bit, and packed in payload
/// where it has one. All three begin at the first word.
struct CandidateSource {
    const float* e = nullptr;
    const std::uint64_t* current = nullptr;
    const float* payload = nullptr;
};

struct Table {
    Index (*first_unacceptable)(const float* g, Index begin, Index end);
    Index (*local_pass)(const Scalars& scalars, Index begin, Index end, const LocalPass& pass);
    void (*extract)(Index begin, Index end, float* e, const Mask& current, float* payload);
    void (*repack)(Index begin, Index end, const Mask& last, const float* m, const Mask& current,
                   float* m_on_current);
    void (*fold)(const Scalars& scalars, int workers, Index begin, Index end, const float* parts,
                 Index stride, float* mean);
    void (*to_bf16)(Index begin, Index end, float* c, std::uint16_t* sent, float* lost);
    void (*fold_bf16)(const Scalars& scalars, int workers, Index begin, Index end,
                      const std::uint16_t* parts, Index stride, float* mean);
    void (*to_e5m2)(const element::E5m2Scale& scale, Index begin, Index end, float* c, std::uint8_t* sent,
                    float* lost);
    void (*fold_e5m2)(const Scalars& scalars, const element::E5m2Scale& scale, int workers, Index begin,
                      Index end, const std::uint8_t* parts, Index stride, float* mean);
    std::uint32_t (*greatest_score_of)(Index begin, Index end, const float* c);
    void (*reconstruct)(const Scalars& scalars, Index begin, Index end, const float* M, const float* m,
                        float* ghat);
    void (*square_sums)(Index first, Index last, const float* ghat, Index size, double* sums);
    void (*clip)(const Scalars& scalars, float s, Index begin, Index end, const float* m, float* ghat,
                 float* M);
    void (*directions)(problem::BiasCorrection correction, const Scalars& scalars, Index begin, Index end,
                       const float* M, const float* m, const float* ghat, float* u);
    bool (*update)(const Scalars& scalars, Index begin, Index end, float* w, const Mask& current,
                   const float* u);
    bool (*dense)(problem::BiasCorrection correction, const Scalars& scalars, Index size, const float* g,
                  float* m, float* w);
    bool (*finite)(const float* values, Index size);

    bool (*inner)(InnerRule rule, const Scalars& scalars, Index begin, Index end, const InnerStep& vectors);
    void (*drift)(float eta, Index begin, Index end, const float* theta, float* x);
    bool (*gossip)(const Gossip& gossip, Index begin, Index end, const float* y, float* before,
                   float* theta);

    /// The scores of `words` whole words.
    void (*score_words)(const CandidateSource& source, Index words, Score* scores);
    /// How many of the scores are at least `threshold`, which is not negative.
    Index (*count_at_least)(const Score* scores, Index size, Score threshold);
    /// Writes which scores of a word are above `high`, and which from `low` to `high`.
    void (*between)(const Score* scores, Score low, Score high, std::uint64_t& above,
                    std::uint64_t& inside);
    /// Sets the bits of `words` whole words whose score is above `high`, and adds those from `low`
    /// to `high` to the candidates. The first word's coordinate is `position`. Returns how many
    /// bits it has set. If the candidates exceed their room, it stops early and the bits are
    /// invalid.
    Index (*bracket)(const CandidateSource& source, Index words, std::uint32_t position, Score low,
                     Score high, std::uint64_t* next, Candidates& candidates);

    /// The number of bits in words, and of those that two lists share.
    Index (*count_words)(const std::uint64_t* words, Index count);
    Index (*count_common)(const std::uint64_t* a, const std::uint64_t* b, Index count);
    void (*encode_bitmap)(const std::uint64_t* words, Index begin, Index end, std::uint8_t* code);
    bool (*decode_bitmap)(const std::uint8_t* code, Index begin, Index end, Index k, std::uint64_t* words);
    void (*encode_positions)(const std::uint64_t* words, Index begin, Index end, std::uint8_t* counts,
                             std::uint8_t* positions, const std::uint8_t* positions_end);
    bool (*decode_positions)(const std::uint8_t* counts, const std::uint8_t* positions, Index begin,
                             Index end, Index k, std::uint64_t* words);
};

/// The variant in use.
[[nodiscard]] const Table& table();

/// The variant of this name, or the best without a name. Throws std::invalid_argument if this machine
/// lacks it.
[[nodiscard]] Variant variant_for(const char* asked);

extern const Table plain_table;
#if defined(__x86_64__)
extern const Table avx2_table;
extern const Table avx512_table;
#endif

} // namespace truestep::distributed::host
