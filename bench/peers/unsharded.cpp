// SCAPE as in its authors' code for an unsharded optimizer: residual, moment and parameters in full
// length on every rank, one pass after the other, an all-reduce of the values packed on the mask,
// and masks as bitmaps, one bit a parameter. The same bits as SCAPE, at other costs.
//
// The all-reduce is a reduce-scatter in rank order and an all-gather: as many bytes as a ring's,
// over the transport of all peers here.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include <truestep/distributed/kernels.hpp>

#include "peers/arithmetic.hpp"
#include "peers/kinds.hpp"
#include "peers/lazy_adams.hpp"

namespace truestep::peers {
namespace {

namespace element = distributed::element;
namespace host = distributed::host;
using distributed::Mask;

class Unsharded final : public Peer {
  public:
    Unsharded(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : hyper_(setting.hyper), density_(setting.density), size_(setting.size),
          communicator_(communicator), ranges_(word_shards(setting.size, communicator.size())),
          w_(parameters.begin(), parameters.end()), m_(w_.size(), 0.0F), e_(w_.size(), 0.0F), none_(size_),
          current_(size_), coming_(size_) {
        none_.count();
        Index selected = 0;
        for (const problem::Range& range : ranges_) {
            counts_.push_back({selected, selected + count_at(range.size(), density_)});
            selected = counts_.back().end;
            mask_sizes_.push_back(static_cast<std::size_t>((range.size() + 7) / 8));
        }
        payload_.resize(static_cast<std::size_t>(selected));
        last_m_.resize(payload_.size());
        ghat_.resize(payload_.size());
    }
    Unsharded(const Unsharded&) = delete;
    Unsharded& operator=(const Unsharded&) = delete;

    /// Waits for the exchange in any case, since its buffers are about to go.
    ~Unsharded() override {
        try {
            finish();
        } catch (...) { // NOLINT(bugprone-empty-catch): the ranks know of the error already
        }
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        const auto s = scalars_of(hyper_, communicator_.size(), ++steps_, learning_rate);
        finish();
        std::swap(last_, current_);
        std::swap(current_, coming_);
        // e becomes c.
        for (std::size_t i = 0; i < e_.size(); ++i)
            e_[i] = element::local(s, m_[i], gradient[i], e_[i]);
        if (steps_ == 1) {
            start_mask();
            finish();
            std::swap(current_, coming_);
        }
        start_mask();
        current_.count();
        host::extract(0, size_, e_.data(), current_, payload_.data());
        exchange(s);
        update(s);
    }
    void finish() override {
        if (const auto exchange = std::move(mask_exchange_); exchange != nullptr)
            exchange->wait();
    }
    [[nodiscard]] std::span<const float> parameters() const override { return w_; }

    [[nodiscard]] State state() override {
        finish();
        return {{{"w", w_}, {"m", m_}, {"e", e_}},
                {{"steps", {static_cast<std::uint64_t>(steps_)}},
                 {"S", words_of(current_)},
                 {"next", words_of(coming_)}}};
    }
    void restore(const State& state) override {
        finish(); // else the open exchange would overwrite the restored state
        w_ = values_in(state, "w", w_.size());
        m_ = values_in(state, "m", m_.size());
        e_ = values_in(state, "e", e_.size());
        current_ = mask_in(state, "S", size_);
        coming_ = mask_in(state, "next", size_);
        steps_ = count_in(state, "steps");
    }

  private:
    [[nodiscard]] std::size_t me() const { return static_cast<std::size_t>(communicator_.rank()); }

    void start_mask() {
        const problem::Range own = ranges_[me()];
        coming_.clear();
        if (own.size() > 0)
            host::Selector::select(own.begin, own.end, count_at(own.size(), density_), e_.data(), none_,
                                   nullptr, coming_, hint_);
        // Ranges begin at whole words, so the parts of the bitmap arrive in their places.
        auto* const bytes = reinterpret_cast<std::byte*>(coming_.words());
        mask_exchange_ =
            communicator_.start_all_gather(Traffic::mask, bytes + own.begin / 8, bytes, mask_sizes_);
    }

    /// Exchanges the payload, which becomes M, on all ranks.
    void exchange(const distributed::Scalars& s) {
        const problem::Range own = counts_[me()];
        const auto by_owner = sizes_of(counts_, sizeof(float));
        const std::vector<std::size_t> from_each(counts_.size(), by_owner[me()]);
        received_.resize(static_cast<std::size_t>(own.size()) * counts_.size());
        communicator_
            .start_all_to_all(Traffic::payload, payload_.data(), by_owner, received_.data(), from_each)
            ->wait();
        float* const mine = payload_.data() + own.begin;
        host::fold(s, communicator_.size(), 0, own.size(), received_.data(), own.size(), mine);
        communicator_.start_all_gather(Traffic::moment, mine, payload_.data(), by_owner)->wait();
    }

    void update(const distributed::Scalars& s) {
        const auto count = static_cast<Index>(payload_.size());
        std::size_t at = 0;
        for_each_bit(current_, 0, size_,
                     [&](Index index) { last_m_[at++] = m_[static_cast<std::size_t>(index)]; });
        for_each_bit(last_, 0, size_, [&](Index index) { m_[static_cast<std::size_t>(index)] = 0.0F; });
        at = 0;
        for_each_bit(current_, 0, size_,
                     [&](Index index) { m_[static_cast<std::size_t>(index)] = payload_[at++]; });
        host::reconstruct(s, 0, count, payload_.data(), last_m_.data(), ghat_.data());
        host::directions(hyper_.bias_correction, s, 0, count, payload_.data(), last_m_.data(), ghat_.data(),
                         ghat_.data());
        static_cast<void>(host::update(s, 0, size_, w_.data(), current_, ghat_.data()));
    }

    problem::HyperParameters hyper_;
    double density_;
    Index size_;
    Communicator& communicator_;
    std::vector<problem::Range> ranges_;
    std::vector<problem::Range> counts_; ///< the ranges, packed on a mask
    std::vector<std::size_t> mask_sizes_;
    std::vector<float> w_;
    std::vector<float> m_;
    std::vector<float> e_;
    Mask none_;
    Mask last_{size_};
    Mask current_;
    Mask coming_;
    std::vector<float> payload_;
    std::vector<float> received_;
    std::vector<float> last_m_;
    std::vector<float> ghat_;
    std::unique_ptr<distributed::Exchange> mask_exchange_;
    std::uint32_t hint_ = 0;
    Index steps_ = 0;
};

} // namespace

std::unique_ptr<Peer> make_unsharded(const Setting& setting, Communicator& communicator,
                                     std::span<const float> parameters) {
    return std::make_unique<Unsharded>(setting, communicator, parameters);
}

} // namespace truestep::peers
