// DiLoCo with all known savings. Ranks take AdamS steps by themselves. Every H steps each shard's
// owner receives it from all ranks, makes the outer step with Nesterov's momentum, and sends it
// back. Only the owner has the momentum. All begin a round with the same parameters, so the mean
// drift is the mean of the models less these, and drifts need no pass.
#include <cstddef>

#include <truestep/distributed/kernels.hpp>

#include "peers/arithmetic.hpp"
#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

namespace element = distributed::element;
namespace host = distributed::host;

class DiLoCo final : public LocalPeer {
  public:
    DiLoCo(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : LocalPeer(setting.inner_steps), hyper_(setting.hyper), communicator_(communicator),
          by_owner_(sizes_of(shards(setting.size, communicator.size()), sizeof(float))),
          own_(shards(setting.size, communicator.size())[static_cast<std::size_t>(communicator.rank())]),
          theta_(parameters.begin(), parameters.end()), x_(theta_.size()), m_(theta_.size(), 0.0F),
          before_(theta_.begin() + own_.begin, theta_.begin() + own_.end),
          received_(before_.size() * static_cast<std::size_t>(communicator.size())) {}

    void inner_step(std::span<const float> gradient, double learning_rate) override {
        const auto s = scalars_of(hyper_, 1, ++steps_, learning_rate);
        const auto rule = hyper_.bias_correction == problem::BiasCorrection::momentum
                              ? distributed::InnerRule::adams_momentum
                              : distributed::InnerRule::adams;
        // The first step of a round leaves theta unchanged, which saves a copy.
        const float* const x = inside_ ? x_.data() : theta_.data();
        const host::InnerStep vectors{gradient.data(), x,         m_.data(), nullptr,
                                      x_.data(),       m_.data(), nullptr};
        static_cast<void>(host::inner(rule, s, 0, static_cast<Index>(theta_.size()), vectors));
        inside_ = true;
    }

    void end_round() override {
        const int ranks = communicator_.size();
        const std::vector<std::size_t> from_each(static_cast<std::size_t>(ranks),
                                                 before_.size() * sizeof(float));
        communicator_
            .start_all_to_all(Traffic::gradient, x_.data(), by_owner_, received_.data(), from_each)
            ->wait();
        float* const theta = theta_.data() + own_.begin;
        float* const mean = x_.data() + own_.begin; // its contents have been sent
        const auto s = scalars_of(hyper_, ranks, steps_, 0.0);
        host::fold(s, ranks, 0, own_.size(), received_.data(), own_.size(), mean);
        for (std::size_t i = 0; i < before_.size(); ++i) {
            const float y = element::drift(diloco_rate, theta[i], mean[i]);
            theta[i] = element::carried(diloco_momentum, y, y, before_[i]);
            before_[i] = y;
        }
        communicator_.start_all_gather(Traffic::parameters, theta, theta_.data(), by_owner_)->wait();
        inside_ = false;
    }

    [[nodiscard]] std::span<const float> parameters() const override { return inside_ ? x_ : theta_; }

    [[nodiscard]] State state() override {
        return State{{{"theta", theta_}, {"m", m_}, {"before", before_}},
                     {{"steps", {static_cast<std::uint64_t>(steps_)}}}};
    }
    void restore(const State& state) override {
        theta_ = values_in(state, "theta", theta_.size());
        m_ = values_in(state, "m", m_.size());
        before_ = values_in(state, "before", before_.size());
        steps_ = count_in(state, "steps");
        inside_ = false;
    }

  private:
    problem::HyperParameters hyper_;
    Communicator& communicator_;
    std::vector<std::size_t> by_owner_;
    problem::Range own_;
    std::vector<float> theta_;
    std::vector<float> x_;
    std::vector<float> m_;
    std::vector<float> before_; ///< the last y of the own shard
    std::vector<float> received_;
    Index steps_ = 0;
    bool inside_ = false; ///< of a round: x is the model
};

} // namespace

std::unique_ptr<Peer> make_diloco(const Setting& setting, Communicator& communicator,
                                  std::span<const float> parameters) {
    return std::make_unique<DiLoCo>(setting, communicator, parameters);
}

} // namespace truestep::peers
