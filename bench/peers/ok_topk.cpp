// A balanced sparse all-reduce, written from the description in "Near-Optimal Sparse Allreduce for
// Distributed Deep Learning" (Li and Hoefler, PPoPP 2022). Each step works on top of a residual:
//
// 1. A rank selects the values that reach its threshold, which is computed exactly at intervals and
// reused in between.
//
// 2. The coordinates are split into P regions, one for each owner. Borders spread the selected ones
// evenly; they are recomputed at intervals, as the mean of all ranks' wishes. Entries go to their
// owners, who add them.
//
// 3. Owners keep the sums that reach the threshold of the sums, even them out if some have far more
// than others, and all gather the result.
//
// 4. A rank's residual keeps everything except what it selected and the result contains.
//
// The bytes depend on the data, so sizes travel, too, as agreement.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include <truestep/distributed/kernels.hpp>

#include "peers/kinds.hpp"
#include "peers/lazy_adams.hpp"
#include "peers/ok_topk.hpp"

namespace truestep::peers {
namespace {

namespace host = distributed::host;
using distributed::Mask;

bool off(std::size_t count, Index k) {
    return std::abs(static_cast<double>(count) - static_cast<double>(k)) >
           ok_topk::tolerance * static_cast<double>(k);
}

class OkTopK final : public Peer {
  public:
    OkTopK(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : size_(setting.size), k_(count_at(setting.size, setting.density)), communicator_(communicator),
          ranks_(static_cast<std::size_t>(communicator.size())), optimizer_(setting.hyper, parameters),
          e_(parameters.size(), 0.0F), none_(size_), own_(size_), borders_(ranks_ + 1, 0), sum_(size_) {
        none_.count();
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        const bool anew = steps_++ % ok_topk::period == 0;
        for (std::size_t i = 0; i < e_.size(); ++i)
            e_[i] += gradient[i];
        select(anew);
        if (anew)
            split();
        reduce();
        if (anew)
            threshold_of_sums();
        std::erase_if(part_, [&](const Entry& sum) { return std::abs(sum.value) < sum_threshold_; });
        gather();
        for (const Entry& sum : result_)
            if (own_.test(sum.index))
                e_[sum.index] = 0.0F;
        mend_threshold();
        optimizer_.update(result_, communicator_.size(), learning_rate);
    }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_.parameters(); }

    /// The count of steps tells when thresholds and regions are due again.
    [[nodiscard]] State state() override {
        State state = optimizer_.state();
        state.vectors["e"] = e_;
        state.vectors["thresholds"] = {threshold_, sum_threshold_};
        state.words["borders"] = {borders_.begin(), borders_.end()};
        return state;
    }
    void restore(const State& state) override {
        optimizer_.restore(state);
        e_ = values_in(state, "e", e_.size());
        const std::vector<float>& thresholds = values_in(state, "thresholds", 2);
        threshold_ = thresholds[0];
        sum_threshold_ = thresholds[1];
        const std::vector<std::uint64_t>& borders = words_in(state, "borders", borders_.size());
        std::ranges::transform(borders, borders_.begin(),
                               [](std::uint64_t border) { return static_cast<std::uint32_t>(border); });
        steps_ = count_in(state, "steps");
    }

  private:
    /// Selects what reaches the threshold, into own_ and entries_.
    void select(bool anew) {
        if (!anew) {
            reach();
            if (!off(entries_.size(), k_))
                return;
            if (entries_.size() > static_cast<std::size_t>(k_)) {
                narrow();
                return;
            }
        }
        own_.clear();
        host::Selector::select(0, size_, k_, e_.data(), none_, nullptr, own_, hint_);
        threshold_ = std::numeric_limits<float>::infinity();
        for_each_bit(own_, 0, size_, [&](Index index) {
            threshold_ = std::min(threshold_, std::abs(e_[static_cast<std::size_t>(index)]));
        });
        reach(); // including ties, as in the next steps
    }

    /// Computes the exact threshold if more than k were found, since it is among them.
    void narrow() {
        std::vector<float> magnitudes;
        magnitudes.reserve(entries_.size());
        for (const Entry& entry : entries_)
            magnitudes.push_back(std::abs(entry.value));
        threshold_ = kth_largest(magnitudes, k_);
        std::erase_if(entries_, [&](const Entry& entry) { return std::abs(entry.value) < threshold_; });
        own_.clear();
        for (const Entry& entry : entries_)
            own_.set(entry.index);
    }

    void reach() {
        entries_.clear();
        std::uint64_t* const words = own_.words();
        for (std::size_t word = 0; word < own_.word_count(); ++word) {
            const std::size_t begin = word * 64;
            const std::size_t end = std::min(begin + 64, e_.size());
            // One byte a value first, since the compiler vectorizes this loop.
            std::uint8_t reached[64] = {};
            for (std::size_t i = begin; i < end; ++i)
                reached[i - begin] = static_cast<std::uint8_t>(std::abs(e_[i]) >= threshold_);
            std::uint64_t bits = 0;
            for (std::size_t group = 0; group < 8; ++group) {
                std::uint64_t eight = 0;
                std::memcpy(&eight, reached + 8 * group, sizeof eight);
                bits |= ((eight * 0x0102'0408'1020'4080U) >> 56U) << (8 * group);
            }
            words[word] = bits;
            for (; bits != 0; bits &= bits - 1) {
                const std::size_t index = begin + static_cast<std::size_t>(std::countr_zero(bits));
                entries_.push_back({static_cast<std::uint32_t>(index), e_[index]});
            }
        }
    }

    /// Computes borders: where this rank would cut for equal numbers of entries, then the mean of
    /// all ranks.
    void split() {
        std::vector<std::uint32_t> wishes(ranks_ - 1);
        for (std::size_t region = 1; region < ranks_; ++region)
            wishes[region - 1] = entries_[entries_.size() * region / ranks_].index;
        std::vector<std::uint32_t> all(ranks_ * wishes.size());
        const std::vector<std::size_t> sizes(ranks_, wishes.size() * sizeof(std::uint32_t));
        communicator_.start_all_gather(Traffic::agreement, wishes.data(), all.data(), sizes)->wait();
        borders_.assign(1, 0);
        for (std::size_t region = 1; region < ranks_; ++region) {
            std::uint64_t sum = 0;
            for (std::size_t rank = 0; rank < ranks_; ++rank)
                sum += all[rank * wishes.size() + region - 1];
            borders_.push_back(static_cast<std::uint32_t>(sum / ranks_));
        }
        borders_.push_back(static_cast<std::uint32_t>(size_));
    }

    /// Sends entries to their regions' owners; puts the sums of the own region, ascending, into
    /// part_.
    void reduce() {
        std::vector<std::uint32_t> counts(ranks_);
        for (std::size_t region = 0, at = 0; region < ranks_; ++region) {
            const std::size_t begin = at;
            while (at < entries_.size() && entries_[at].index < borders_[region + 1])
                ++at;
            counts[region] = static_cast<std::uint32_t>(at - begin);
        }
        std::vector<std::uint32_t> coming(ranks_);
        const std::vector<std::size_t> one(ranks_, sizeof(std::uint32_t));
        communicator_.start_all_to_all(Traffic::agreement, counts.data(), one, coming.data(), one)->wait();
        received_.resize(std::reduce(coming.begin(), coming.end(), std::size_t{0}));
        communicator_
            .start_all_to_all(Traffic::gradient, entries_.data(), in_bytes(counts), received_.data(),
                              in_bytes(coming))
            ->wait();
        sum_.add(received_);
        part_.clear();
        sum_.take([&](Index index, float sum) {
            part_.push_back({static_cast<std::uint32_t>(index), sum});
        });
    }

    /// Computes the k-th largest of all sums exactly: all ranks gather all values.
    void threshold_of_sums() {
        const auto counts = gather_counts();
        std::vector<float> mine;
        mine.reserve(part_.size());
        for (const Entry& sum : part_)
            mine.push_back(std::abs(sum.value));
        std::vector<float> all(std::reduce(counts.begin(), counts.end(), std::size_t{0}));
        auto sizes = in_bytes(counts);
        for (std::size_t& size : sizes)
            size = size / sizeof(Entry) * sizeof(float);
        communicator_.start_all_gather(Traffic::gradient, mine.data(), all.data(), sizes)->wait();
        sum_threshold_ = kth_largest(all, k_);
    }

    /// Adjusts the threshold for the next step, from what all ranks know now. If the result is too
    /// large, its k-th largest value needs no exchange.
    void mend_threshold() {
        if (!off(result_.size(), k_))
            return;
        if (result_.size() < static_cast<std::size_t>(k_)) {
            sum_threshold_ /= ok_topk::nudge;
            return;
        }
        std::vector<float> magnitudes;
        magnitudes.reserve(result_.size());
        for (const Entry& sum : result_)
            magnitudes.push_back(std::abs(sum.value));
        sum_threshold_ = kth_largest(magnitudes, k_);
    }

    [[nodiscard]] static float kth_largest(std::vector<float>& magnitudes, Index k) {
        const auto kth = magnitudes.begin() + std::min(k, static_cast<Index>(magnitudes.size())) - 1;
        std::nth_element(magnitudes.begin(), kth, magnitudes.end(), std::greater<>());
        return *kth;
    }

    /// Gathers all owners' parts into result_, after evening them out if that pays off.
    void gather() {
        auto counts = gather_counts();
        const std::size_t total = std::reduce(counts.begin(), counts.end(), std::size_t{0});
        const auto largest = static_cast<double>(*std::max_element(counts.begin(), counts.end()));
        if (largest * static_cast<double>(ranks_) > ok_topk::imbalance * static_cast<double>(total))
            even_out(counts, total);
        result_.resize(total);
        communicator_.start_all_gather(Traffic::gradient, part_.data(), result_.data(), in_bytes(counts))
            ->wait();
    }

    /// Cuts the parts, which lie one after the other, anew into P equal ones. All ranks know who
    /// has what.
    void even_out(std::vector<std::uint32_t>& counts, std::size_t total) {
        std::vector<std::size_t> now(1, 0);
        std::vector<std::size_t> then(1, 0);
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            now.push_back(now[rank] + counts[rank]);
            then.push_back(total * (rank + 1) / ranks_);
        }
        const auto shared = [&](std::size_t from, std::size_t to) {
            const std::size_t begin = std::max(now[from], then[to]);
            const std::size_t end = std::min(now[from + 1], then[to + 1]);
            return end > begin ? (end - begin) * sizeof(Entry) : 0;
        };
        const auto me = static_cast<std::size_t>(communicator_.rank());
        std::vector<std::size_t> to_each;
        std::vector<std::size_t> from_each;
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            to_each.push_back(shared(me, rank));
            from_each.push_back(shared(rank, me));
            counts[rank] = static_cast<std::uint32_t>(then[rank + 1] - then[rank]);
        }
        std::vector<Entry> mine(counts[me]);
        communicator_.start_all_to_all(Traffic::gradient, part_.data(), to_each, mine.data(), from_each)
            ->wait();
        part_.swap(mine);
    }

    [[nodiscard]] std::vector<std::uint32_t> gather_counts() {
        return distributed::gather_records(communicator_, static_cast<std::uint32_t>(part_.size()));
    }

    [[nodiscard]] static std::vector<std::size_t> in_bytes(const std::vector<std::uint32_t>& counts) {
        std::vector<std::size_t> bytes;
        bytes.reserve(counts.size());
        for (const std::uint32_t count : counts)
            bytes.push_back(count * sizeof(Entry));
        return bytes;
    }

    Index size_;
    Index k_;
    Communicator& communicator_;
    std::size_t ranks_;
    LazyAdamS optimizer_;
    std::vector<float> e_;
    Mask none_;
    Mask own_;                           ///< what this rank has selected
    std::vector<Entry> entries_;         ///< the same, with values
    std::vector<std::uint32_t> borders_; ///< of the regions
    std::vector<Entry> received_;
    SparseSum sum_;
    std::vector<Entry> part_;   ///< the own region's part of the result
    std::vector<Entry> result_; ///< sums over ranks, ascending
    std::uint32_t hint_ = 0;
    float threshold_ = 0.0F;
    float sum_threshold_ = 0.0F;
    Index steps_ = 0;
};

} // namespace

std::unique_ptr<Peer> make_ok_topk(const Setting& setting, Communicator& communicator,
                                   std::span<const float> parameters) {
    return std::make_unique<OkTopK>(setting, communicator, parameters);
}

} // namespace truestep::peers
