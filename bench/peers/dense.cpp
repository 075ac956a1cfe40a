// AdamS as it stands in distributed/, and SCAPE, behind the peers' interface.
#include <algorithm>
#include <utility>

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

    [[nodiscard]] std::optional<State> state() override {
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
    distributed::AdamS optimizer_;
};

class Sparse final : public Peer {
  public:
    Sparse(const Setting& setting, Communicator& communicator, std::span<const float> parameters) {
        Settings settings;
        settings.hyper = setting.hyper;
        settings.density = density_of(setting);
        optimizer_ = make_optimizer(layout_of(setting), settings, communicator, parameters);
    }

    void step(std::span<const float> gradient, double learning_rate) override {
        optimizer_->step(gradient, learning_rate);
    }
    void finish() override { static_cast<void>(optimizer_->coming_mask()); }
    [[nodiscard]] std::span<const float> parameters() const override { return optimizer_->parameters(); }

    [[nodiscard]] std::optional<State> state() override {
        distributed::RankState state = optimizer_->state();
        const auto words = [](const distributed::Mask& mask) {
            return std::vector(mask.words(), mask.words() + mask.word_count());
        };
        return State{{{"w", std::move(state.parameters)},
                      {"e", std::move(state.residual)},
                      {"m", std::move(state.packed_moment)}},
                     {{"steps", {static_cast<std::uint64_t>(state.step)}},
                      {"S", words(state.current)},
                      {"next", words(state.coming)}}};
    }
    void restore(const State& state) override {
        const std::size_t d = optimizer_->parameters().size();
        const auto mask = [&](const std::string& name) {
            distributed::Mask made(static_cast<Index>(d));
            std::ranges::copy(words_in(state, name, made.word_count()), made.words());
            made.count();
            return made;
        };
        distributed::Mask current = mask("S");
        auto moment = values_in(state, "m", static_cast<std::size_t>(current.selected()));
        optimizer_->restore({count_in(state, "steps"), values_in(state, "w", d), values_in(state, "e", d),
                             std::move(moment), std::move(current), mask("next")});
    }

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
