// References of the peers that train in rounds. GASLoC's is the project's own. DiLoCo's is here:
// all ranks in one loop, in the order and words of its authors.
#include <utility>

#include <truestep/reference/coefficients.hpp>
#include <truestep/reference/gasloc/reference.hpp>
#include <truestep/reference/update.hpp>

#include "peers/kinds.hpp"
#include "peers/sequential.hpp"

namespace truestep::peers {
namespace {

using Vector = reference::Vector<float>;

class DiLoCoReference final : public Sequential {
  public:
    DiLoCoReference(Setting setting, int ranks, int rank, const std::vector<float>& start)
        : setting_(std::move(setting)), rank_(static_cast<std::size_t>(rank)), theta_(vector_of(start)),
          before_(theta_), replicas_(static_cast<std::size_t>(ranks), {theta_, 0.0F * theta_}) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        const reference::Coefficients<float> s(setting_.hyper, ++steps_, learning_rate);
        for (std::size_t rank = 0; rank < replicas_.size(); ++rank) {
            auto& [x, m] = replicas_[rank];
            const Vector g = vector_of(gradients[rank]);
            const Vector M = (s.b1 * m) + (s.a1 * g);
            const Vector u = reference::direction(setting_.hyper.bias_correction, s, M, m, g);
            x = (x * s.decay) - (s.lr * u);
            m = M;
        }
        if (steps_ % setting_.inner_steps == 0)
            outer_step();
        return values_of(replicas_[rank_].x);
    }

  private:
    struct Replica {
        Vector x;
        Vector m;
    };

    void outer_step() {
        Vector sum = replicas_.front().x;
        for (std::size_t rank = 1; rank < replicas_.size(); ++rank)
            sum = sum + replicas_[rank].x;
        const Vector mean = sum / static_cast<float>(replicas_.size());
        const Vector y = theta_ + (diloco_rate * (mean - theta_));
        theta_ = y + (diloco_momentum * (y - before_));
        before_ = y;
        for (Replica& replica : replicas_)
            replica.x = theta_;
    }

    Setting setting_;
    std::size_t rank_;
    Vector theta_;
    Vector before_;
    std::vector<Replica> replicas_;
    Index steps_ = 0;
};

class GasLocReference final : public Sequential {
  public:
    GasLocReference(const Setting& setting, int ranks, int rank, const std::vector<float>& start)
        : settings_(gasloc_settings(setting)), inner_steps_(setting.inner_steps), rank_(rank),
          gradients_(static_cast<std::size_t>(ranks)), reference_(settings_, ranks, vector_of(start)) {}

    /// The reference makes whole rounds, so it has no result within one.
    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        for (std::size_t rank = 0; rank < gradients.size(); ++rank)
            gradients_[rank].push_back(vector_of(gradients[rank]));
        learning_rates_.push_back(learning_rate);
        if (static_cast<Index>(learning_rates_.size()) < inner_steps_)
            return std::nullopt;
        const int ranks = static_cast<int>(gradients_.size());
        reference_.round(gradients_, learning_rates_,
                         problem::gasloc::graph_of(settings_, reference_.rounds + 1, ranks));
        for (auto& of_rank : gradients_)
            of_rank.clear();
        learning_rates_.clear();
        return values_of(reference_.state[static_cast<std::size_t>(rank_)].theta);
    }

  private:
    problem::gasloc::Settings settings_;
    Index inner_steps_;
    int rank_;
    std::vector<reference::gasloc::Gradients<float>> gradients_; ///< of this round so far
    std::vector<double> learning_rates_;
    reference::gasloc::Reference<float> reference_;
};

} // namespace

std::unique_ptr<Sequential> make_diloco_reference(const Setting& setting, int ranks, int rank,
                                                  const std::vector<float>& start) {
    return std::make_unique<DiLoCoReference>(setting, ranks, rank, start);
}

std::unique_ptr<Sequential> make_gasloc_reference(const Setting& setting, int ranks, int rank,
                                                  const std::vector<float>& start) {
    return std::make_unique<GasLocReference>(setting, ranks, rank, start);
}

} // namespace truestep::peers
