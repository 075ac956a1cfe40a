// AdamS and SCAPE of distributed/, behind the peers' interface.
#include <utility>

#include <truestep/distributed/scape/adams.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/optimizer.hpp>

#include "peers/kinds.hpp"

namespace truestep::peers {
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

    [[nodiscard]] State state() override {
        const auto w = optimizer_.parameters();
        const auto m = optimizer_.shard_moment();
        return State{{{"w", {w.begin(), w.end()}}, {"m", {m.begin(), m.end()}}},
                     {{"steps", {static_cast<std::uint64_t>(optimizer_.steps())}}}};
    }
    void restore(const State& state) override {
        optimizer_.restore(count_in(state, "steps"), values_in(state, "w", optimizer_.parameters().size()),
                           values_in(state, "m", optimizer_.shard_moment().size()));
    }

  private:
    distributed::scape::AdamS optimizer_;
};

class Sparse : public Peer {
  public:
    Sparse(const Setting& setting, Communicator& communicator, std::span<const float> parameters,
           problem::Payload payload) {
        auto problem =
            problem::make_problem(problem::Algorithm::scape, communicator.size(), layout_of(setting),
                                  problem::PartitionRule::by_shard, setting.hyper);
        problem.settings.payload = payload;
        auto ranges =
            problem::ranges(problem.layout, communicator.size(), problem::PartitionRule::by_shard);
        auto backend = distributed::scape::make_host_backend(problem, parameters, setting.threads);
        optimizer_ = std::make_unique<Optimizer>(std::move(problem), std::move(ranges), density_of(setting),
                                                 std::move(backend), communicator, Optimizer::Options{});
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        optimizer_->step(gradient, learning_rate);
    }
    void finish() override { static_cast<void>(optimizer_->coming_mask()); }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_->parameters(); }

    [[nodiscard]] State state() override {
        distributed::scape::RankState state = optimizer_->state();
        return State{{{"w", std::move(state.parameters)},
                      {"e", std::move(state.residual)},
                      {"m", std::move(state.packed_moment)}},
                     {{"steps", {static_cast<std::uint64_t>(state.step)}},
                      {"S", words_of(state.current)},
                      {"next", words_of(state.coming)}}};
    }
    void restore(const State& state) override {
        const std::size_t d = optimizer_->parameters().size();
        distributed::Mask current = mask_in(state, "S", static_cast<Index>(d));
        auto moment = values_in(state, "m", static_cast<std::size_t>(current.selected()));
        optimizer_->restore({count_in(state, "steps"), values_in(state, "w", d), values_in(state, "e", d),
                             std::move(moment), std::move(current),
                             mask_in(state, "next", static_cast<Index>(d))});
    }

  protected:
    [[nodiscard]] Optimizer& optimizer() { return *optimizer_; }

  private:
    std::unique_ptr<Optimizer> optimizer_;
};

class UsingUp final : public Sparse {
  public:
    UsingUp(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : Sparse(setting, communicator, parameters, problem::Payload::fp32) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        given_.assign(gradient.begin(), gradient.end());
        step_using_up(given_, learning_rate);
    }
    void step_using_up(distributed::AlignedFloats& gradient, double learning_rate) override {
        optimizer().step_using_up(gradient, learning_rate);
    }

  private:
    distributed::AlignedFloats given_; ///< a copy of a gradient that its owner keeps
};

} // namespace

std::unique_ptr<Peer> make_dense(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters) {
    return std::make_unique<Dense>(setting, communicator, parameters);
}

std::unique_ptr<Peer> make_scape(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters, problem::Payload payload) {
    return std::make_unique<Sparse>(setting, communicator, parameters, payload);
}

std::unique_ptr<Peer> make_scape_using_up(const Setting& setting, Communicator& communicator,
                                          std::span<const float> parameters) {
    return std::make_unique<UsingUp>(setting, communicator, parameters);
}

} // namespace truestep::peers
