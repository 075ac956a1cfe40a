// Top-k with indices, as in gradient-compression hooks. Unsent values stay in a residual (error
// feedback). Each rank takes the top k of its own sum, all gather all ranks' values and indices,
// and each adds them. The masks differ, so what a rank receives grows with P.
#include <cstddef>

#include <truestep/distributed/kernels.hpp>

#include "peers/kinds.hpp"
#include "peers/lazy_adams.hpp"

namespace truestep::peers {
namespace {

namespace host = distributed::host;

class TopK final : public Peer {
  public:
    TopK(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : size_(setting.size), k_(count_at(setting.size, setting.density)), communicator_(communicator),
          optimizer_(setting.hyper, parameters), e_(parameters.size(), 0.0F), none_(size_), own_(size_),
          values_(static_cast<std::size_t>(k_)),
          gathered_(static_cast<std::size_t>(k_) * static_cast<std::size_t>(communicator.size())),
          sum_(size_) {
        none_.count();
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        for (std::size_t i = 0; i < e_.size(); ++i)
            e_[i] += gradient[i];
        own_.clear();
        host::Selector::select(0, size_, k_, e_.data(), none_, nullptr, own_, threshold_);
        own_.count();
        host::extract(0, size_, e_.data(), own_, values_.data());

        const auto ranks = static_cast<std::size_t>(communicator_.size());
        const auto k = static_cast<std::size_t>(k_);
        Entry* const mine = gathered_.data() + k * static_cast<std::size_t>(communicator_.rank());
        std::size_t at = 0;
        for_each_bit(own_, 0, size_, [&](Index index) {
            mine[at] = {static_cast<std::uint32_t>(index), values_[at]};
            ++at;
        });
        const std::vector<std::size_t> sizes(ranks, k * sizeof(Entry));
        communicator_.start_all_gather(Traffic::gradient, mine, gathered_.data(), sizes)->wait();
        for (std::size_t rank = 0; rank < ranks; ++rank)
            sum_.add(std::span(gathered_).subspan(rank * k, k));
        sums_.clear();
        sum_.take([&](Index index, float sum) {
            sums_.push_back({static_cast<std::uint32_t>(index), sum});
        });
        optimizer_.update(sums_, communicator_.size(), learning_rate);
    }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_.parameters(); }

    /// Leaves out the selection's hint, which changes only its time.
    [[nodiscard]] State state() override {
        State state = optimizer_.state();
        state.vectors["e"] = e_;
        return state;
    }
    void restore(const State& state) override {
        optimizer_.restore(state);
        e_ = values_in(state, "e", e_.size());
    }

  private:
    Index size_;
    Index k_;
    Communicator& communicator_;
    LazyAdamS optimizer_;
    std::vector<float> e_;
    distributed::Mask none_;
    distributed::Mask own_;
    std::vector<float> values_;
    std::vector<Entry> gathered_;
    SparseSum sum_;
    std::vector<Entry> sums_;
    std::uint32_t threshold_ = 0;
};

} // namespace

std::unique_ptr<Peer> make_topk(const Setting& setting, Communicator& communicator,
                                std::span<const float> parameters) {
    return std::make_unique<TopK>(setting, communicator, parameters);
}

} // namespace truestep::peers
