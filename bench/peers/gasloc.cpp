// GASLoC of distributed/, behind the peers' interface.
#include <utility>

#include <truestep/distributed/gasloc/worker.hpp>

#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

class GasLoc final : public LocalPeer {
  public:
    GasLoc(const Setting& setting, distributed::Peers& peers, std::span<const float> parameters)
        : LocalPeer(setting.inner_steps), worker_(gasloc_settings(setting), parameters, peers) {}

    void inner_step(std::span<const float> gradient, double learning_rate) override {
        static_cast<void>(worker_.step(gradient, learning_rate));
    }
    void end_round() override { static_cast<void>(worker_.round()); }
    [[nodiscard]] std::span<const float> parameters() const override { return worker_.parameters(); }

    [[nodiscard]] State state() override {
        distributed::gasloc::State state = worker_.state();
        return State{{{"theta", std::move(state.theta)},
                      {"before", std::move(state.before)},
                      {"m", std::move(state.m)}},
                     {{"rounds", {static_cast<std::uint64_t>(state.rounds)}},
                      {"s", {static_cast<std::uint64_t>(state.s)}}}};
    }
    void restore(const State& state) override {
        const std::size_t d = worker_.parameters().size();
        worker_.restore({count_in(state, "rounds"),
                         count_in(state, "s"),
                         values_in(state, "theta", d),
                         values_in(state, "before", d),
                         values_in(state, "m", d),
                         {}});
    }

  private:
    distributed::gasloc::Worker worker_;
};

} // namespace

std::unique_ptr<Peer> make_gasloc(const Setting& setting, distributed::Peers& peers,
                                  std::span<const float> parameters) {
    return std::make_unique<GasLoc>(setting, peers, parameters);
}

} // namespace truestep::peers
