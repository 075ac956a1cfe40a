// AdamS as it stands in distributed/, and SCAPE, behind the peers' interface.
#include <scape/distributed/adams.hpp>
#include <scape/optimizer.hpp>

#include "peers/kinds.hpp"

namespace scape::peers {
namespace {

class Dense final : public Peer {
  public:
    Dense(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : optimizer_(problem::make_problem(problem::Algorithm::adams, communicator.size(),
                                           one_tensor(setting.size), problem::PartitionRule::by_shard,
                                           setting.hyper),
                     shards(setting.size, communicator.size()), parameters, communicator, {}) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        optimizer_.step(gradient, learning_rate);
    }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_.parameters(); }

  private:
    distributed::AdamS optimizer_;
};

class Sparse final : public Peer {
  public:
    Sparse(const Setting& setting, Communicator& communicator, std::span<const float> parameters) {
        Settings settings;
        settings.hyper = setting.hyper;
        settings.density = DensitySchedule::constant(setting.density);
        optimizer_ = make_optimizer(one_tensor(setting.size), settings, communicator, parameters);
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        optimizer_->step(gradient, learning_rate);
    }
    void finish() override { static_cast<void>(optimizer_->coming_mask()); }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_->parameters(); }

  private:
    std::unique_ptr<Optimizer> optimizer_;
};

} // namespace

std::unique_ptr<Peer> make_dense(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters) {
    return std::make_unique<Dense>(setting, communicator, parameters);
}

std::unique_ptr<Peer> make_scape(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters) {
    return std::make_unique<Sparse>(setting, communicator, parameters);
}

} // namespace scape::peers
