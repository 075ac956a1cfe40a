#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/scape/mask_code.hpp>
#include <truestep/problem/tunable.hpp>

namespace truestep::distributed::scape {

/// The bits of a rank's own segments in the coming mask, in separate words: the mask before S_t,
/// whose place the coming one takes, is needed until the step has ended.
class HostSelection {
  public:
    using Parts = std::span<const MaskCode::Part>;

    /// Announces what select() will need after the next local pass.
    void hint_next_selection(Parts own) { foreseen_.assign(own.begin(), own.end()); }
    void forget() { foreseen_.clear(); }
    void forget_guesses() { guesses_.clear(); }

    /// Begins a local pass that is cut at `cuts`; the other returns what it looks for between two
    /// of them.
    void begin(std::span<const Index> cuts) {
        begun_ = !foreseen_.empty();
        if (begun_)
            begin(foreseen_, true, cuts);
    }
    [[nodiscard]] std::span<host::Watch> watches(std::size_t part) {
        return begun_ ? ahead_.watches(part) : std::span<host::Watch>{};
    }

    void select(Parts own, const float* e, const Mask& current, const float* payload) {
        if (!begun_ || !std::ranges::equal(own, foreseen_))
            begin(own, false, {});
        for (std::size_t i = 0; i < own.size(); ++i)
            guesses_[i].learn(ahead_.take(i, e, current, payload));
        begun_ = false;
        foreseen_.clear();
    }
    void encode(Parts own, std::uint8_t* code) const {
        MaskCode::encode(own, words_.data(), first_ * Mask::word_bits, code);
    }
    /// Gives the words to a mask, if the own segments are the whole model.
    void give_to(Mask& mask) { mask.swap_words(words_); }

  private:
    static constexpr Index large = problem::tunable<Index>("large_segment");

    void begin(Parts own, bool guessing, std::span<const Index> cuts) {
        first_ = own.empty() ? 0 : own.front().begin / Mask::word_bits;
        const Index end = own.empty() ? 0 : (own.back().end + Mask::word_bits - 1) / Mask::word_bits;
        words_.resize(static_cast<std::size_t>(end - first_));
        wanted_.clear();
        guesses_.resize(std::max(guesses_.size(), own.size()));
        for (std::size_t i = 0; i < own.size(); ++i) {
            const MaskCode::Part& part = own[i];
            // For a large segment the candidates of a bad guess would take memory.
            const bool use = guessing && (part.end - part.begin < large || guesses_[i].is_good());
            wanted_.push_back({part.begin, part.end, part.k, use ? guesses_[i] : host::Guess{}});
        }
        ahead_.begin(wanted_, {words_.data(), first_}, cuts);
    }

    std::vector<MaskCode::Part> foreseen_;
    bool begun_ = false;
    std::vector<host::Guess> guesses_; ///< of this rank's segments, which never change
    std::vector<std::uint64_t> words_;
    Index first_ = 0; ///< word
    std::vector<host::SelectionAhead::SegmentRequest> wanted_;
    host::SelectionAhead ahead_;
};

} // namespace truestep::distributed::scape
