// GASLoC as it stands in distributed/, behind the peers' interface.
#include <scape/gasloc/worker.hpp>

#include "peers/kinds.hpp"

namespace scape::peers {
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

  private:
    gasloc::Worker worker_;
};

} // namespace

std::unique_ptr<Peer> make_gasloc(const Setting& setting, distributed::Peers& peers,
                                  std::span<const float> parameters) {
    return std::make_unique<GasLoc>(setting, peers, parameters);
}

} // namespace scape::peers
