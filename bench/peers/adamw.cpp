// Dense AdamW, sharded: reduce-scatter of the gradient, the update of the own shard, all-gather of
// the parameters. A rank stores both moments of its shard only.
#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include <truestep/distributed/aligned.hpp>
#include <truestep/distributed/kernels.hpp>
#include <truestep/distributed/local.hpp>
#include <truestep/problem/error.hpp>

#include "peers/arithmetic.hpp"
#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

namespace host = distributed::host;

class AdamW final : public Peer {
  public:
    AdamW(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : hyper_(setting.hyper), communicator_(communicator),
          ranges_(shards(setting.size, communicator.size())),
          own_(ranges_[static_cast<std::size_t>(communicator.rank())]),
          w_(parameters.begin(), parameters.end()),
          received_(communicator.size() == 1 ? 0 : size() * static_cast<std::size_t>(communicator.size())),
          m_(size(), 0.0F), v_(size(), 0.0F), g_(communicator.size() == 1 ? 0 : size()) {
        hyper_.bias_correction = problem::BiasCorrection::adam;
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        const int ranks = communicator_.size();
        const auto s = scalars_of(hyper_, ranks, ++steps_, learning_rate);
        const auto by_owner = sizes_of(ranges_, sizeof(float));
        const std::vector<std::size_t> from_each(static_cast<std::size_t>(ranks), size() * sizeof(float));
        const float* mean = gradient.data(); // a single rank's gradient is the mean
        if (ranks > 1) {
            communicator_
                .start_all_to_all(Traffic::gradient, gradient.data(), by_owner, received_.data(), from_each)
                ->wait();
            host::fold(s, ranks, 0, own_.size(), received_.data(), own_.size(), g_.data());
            mean = g_.data();
        }
        float* const w = w_.data() + own_.begin;
        if (!host::inner(distributed::InnerRule::adamw, s, 0, own_.size(),
                         {mean, w, m_.data(), v_.data(), w, m_.data(), v_.data()}))
            throw Error("rank " + std::to_string(communicator_.rank()) + ": a gradient is not finite");
        communicator_.start_all_gather(Traffic::parameters, w, w_.data(), by_owner)->wait();
    }
    [[nodiscard]] std::span<const float> parameters() const override { return w_; }

    [[nodiscard]] State state() override {
        return State{
            {{"w", {w_.begin(), w_.end()}}, {"m", {m_.begin(), m_.end()}}, {"v", {v_.begin(), v_.end()}}},
            {{"steps", {static_cast<std::uint64_t>(steps_)}}}};
    }
    void restore(const State& state) override {
        for (auto [name, vector] : {std::pair{"w", &w_}, {"m", &m_}, {"v", &v_}})
            std::ranges::copy(values_in(state, name, vector->size()), vector->begin());
        steps_ = count_in(state, "steps");
    }

  private:
    [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(own_.size()); }

    problem::HyperParameters hyper_;
    Communicator& communicator_;
    std::vector<problem::Range> ranges_;
    problem::Range own_;
    distributed::AlignedFloats w_;
    distributed::AlignedFloats received_;
    distributed::AlignedFloats m_;
    distributed::AlignedFloats v_;
    distributed::AlignedFloats g_;
    Index steps_ = 0;
};

} // namespace

std::unique_ptr<Peer> make_adamw(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters) {
    return std::make_unique<AdamW>(setting, communicator, parameters);
}

} // namespace truestep::peers
