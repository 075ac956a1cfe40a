#pragma once

// One worker of your own GASLoC, behind the interface of the gate. This one is written as in a
// textbook: formulas in double, rounded where a value is stored. So it claims REL, not EXACT.

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <truestep/problem/error.hpp>
#include <truestep/problem/gasloc/stability.hpp>
#include <truestep/properties/gasloc/gate.hpp>

namespace at_home {

namespace gasloc = truestep::properties::gasloc;
using truestep::distributed::Peers;
using truestep::distributed::Traffic;
using Floats = std::vector<float>;

class Worker final : public gasloc::RankUnderTest {
  public:
    /// `breaks`: a typical bug, `before` is stored after the gossip, so that the momentum is
    /// measured from z.
    Worker(gasloc::Settings settings, std::span<const float> parameters, Peers& peers, bool breaks)
        : settings_(std::move(settings)), peers_(peers), breaks_(breaks) {
        gasloc::check(settings_);
        gasloc::check_law(settings_.law, peers.size());
        for (gasloc::Graph& graph : settings_.given)
            graph = gasloc::checked(graph, peers.size(), "a given graph");
        gasloc::check_stable(settings_, peers.size(), settings_.given);
        now_.theta.assign(parameters.begin(), parameters.end());
        now_.before = now_.theta;
        if (settings_.inner != gasloc::Inner::sgd)
            now_.m.assign(now_.theta.size(), 0.0F);
        if (settings_.inner == gasloc::Inner::adamw)
            now_.v.assign(now_.theta.size(), 0.0F);
        begin_round();
    }

    bool step(std::span<const float> gradient, double learning_rate) override {
        for (const float g : gradient)
            skipped_ = skipped_ || !std::isfinite(g);
        if (skipped_)
            return false;
        const auto& hyper = settings_.hyper;
        using truestep::problem::BiasCorrection;
        const bool adamw = settings_.inner == gasloc::Inner::adamw;
        const auto correction = adamw ? BiasCorrection::adam : hyper.bias_correction;
        const auto t = static_cast<double>(++inner_.s);
        const double b1 = hyper.beta1;
        const double b2 = hyper.beta2;
        const double c1 = correction == BiasCorrection::none ? 1.0 : 1 - std::pow(b1, t);
        const double c2 = correction == BiasCorrection::adam ? 1 - std::pow(b2, t) : 1.0;
        for (std::size_t i = 0; i < gradient.size(); ++i) {
            const double g = gradient[i];
            double u = g;
            if (settings_.inner != gasloc::Inner::sgd) {
                const double last = inner_.m[i];
                const double m = b1 * last + (1 - b1) * g;
                // AdamS stores no second moment, and uses the last first moment instead.
                const double stand_in = correction == BiasCorrection::momentum ? last / c1 : last;
                const double v =
                    b2 * (adamw ? double{inner_.v[i]} : stand_in * stand_in) + (1 - b2) * g * g;
                u = m / c1 / (std::sqrt(v / c2) + hyper.epsilon);
                inner_.m[i] = static_cast<float>(m);
                if (adamw)
                    inner_.v[i] = static_cast<float>(v);
            }
            inner_.theta[i] = static_cast<float>(
                inner_.theta[i] * (1 - learning_rate * hyper.weight_decay) - learning_rate * u);
        }
        return true;
    }

    bool round() override {
        const auto number = static_cast<std::uint64_t>(now_.rounds + 1);
        const auto d = now_.theta.size();
        const auto y = std::make_shared<Floats>(now_.theta);
        if (inner_.s > now_.s && !skipped_) {
            for (std::size_t i = 0; i < d; ++i)
                (*y)[i] = static_cast<float>(now_.theta[i] +
                                             settings_.eta * (double{inner_.theta[i]} - now_.theta[i]));
            now_.m = inner_.m;
            now_.v = inner_.v;
            now_.s = inner_.s;
        }
        const auto met =
            gasloc::neighbours(gasloc::graph_of(settings_, now_.rounds + 1, peers_.size()), peers_.rank());
        std::vector<std::unique_ptr<truestep::distributed::IncomingMessage>> incoming;
        for (const auto& neighbour : met)
            incoming.push_back(peers_.receive(Traffic::parameters, neighbour.worker, number, 4 * d));
        for (const auto& neighbour : met)
            peers_.send(Traffic::parameters, neighbour.worker, number, {y, y->data()}, 4 * d);
        std::vector<double> pull(d, 0.0);
        for (std::size_t k = 0; k < met.size(); ++k) {
            const auto* theirs = reinterpret_cast<const float*>(incoming[k]->wait(4 * d));
            for (std::size_t i = 0; i < d; ++i)
                pull[i] += met[k].weight * (double{(*y)[i]} - theirs[i]);
        }
        bool finite = true;
        for (std::size_t i = 0; i < d; ++i) {
            const double z = (*y)[i] - settings_.alpha / 2 * pull[i];
            const double moved = settings_.momentum == gasloc::Momentum::local ? (*y)[i] : z;
            const double theta = z + settings_.gamma * (moved - now_.before[i]);
            now_.before[i] = static_cast<float>(breaks_ ? z : moved);
            now_.theta[i] = static_cast<float>(theta);
            finite = finite && std::isfinite(now_.theta[i]);
        }
        ++now_.rounds;
        const bool skipped = std::exchange(skipped_, false);
        begin_round();
        if (finite)
            return skipped;
        const std::string what = "theta is not finite after round " + std::to_string(now_.rounds);
        peers_.leave(what);
        throw gasloc::Halted(what);
    }

    [[nodiscard]] gasloc::State state() const override { return now_; }

    /// There are no checkpoints yet: main.cpp leaves `restart` out, so this is never called.
    void save(const std::filesystem::path&, int, int) const override {}

  private:
    void begin_round() { inner_ = now_; }

    gasloc::Settings settings_;
    Peers& peers_;
    bool breaks_;
    gasloc::State now_;   ///< between two rounds
    gasloc::State inner_; ///< after the round's inner steps
    bool skipped_ = false;
};

} // namespace at_home
