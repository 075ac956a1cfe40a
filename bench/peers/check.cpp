// The peers' references. SCAPE and the dense peers use the project's own references, with the
// peer's changes to travelling bits. The sparse references are here: all ranks in one loop, with
// selection by sorting. local_check.cpp has peers that train in rounds.
#include "peers/check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>

#include <truestep/problem/data.hpp>
#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/adamw.hpp>
#include <truestep/reference/scape/scape.hpp>

#include "peers/kinds.hpp"
#include "peers/ok_topk.hpp"
#include "peers/sequential.hpp"

namespace truestep::peers {
namespace {

using Vector = reference::Vector<float>;

reference::PerRank<float> per_rank(const Gradients& gradients) {
    reference::PerRank<float> result;
    for (const auto& gradient : gradients)
        result.push_back(vector_of(gradient));
    return result;
}

/// Rounds to bf16 by searching for the neighbours instead of adding to the bits.
float rounded_to_bf16(float value) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
    const float low = std::bit_cast<float>(bits & 0xffff'0000U);
    const float high = std::bit_cast<float>((bits & 0xffff'0000U) + 0x1'0000U);
    const double below = std::abs(static_cast<double>(value) - static_cast<double>(low));
    const double above = std::abs(static_cast<double>(high) - static_cast<double>(value));
    const bool low_is_even = (bits & 0x1'0000U) == 0;
    return below < above || (below == above && low_is_even) ? low : high;
}

problem::Problem dense_problem(const Setting& setting, int ranks) {
    return problem::make_problem(problem::Algorithm::adams, ranks, one_tensor(setting.size),
                                 problem::PartitionRule::by_shard, setting.hyper);
}

class DenseReference final : public Sequential {
  public:
    DenseReference(const Setting& setting, int ranks, const std::vector<float>& start, bool bf16_gradients,
                   bool bf16_parameters)
        : adams_(dense_problem(setting, ranks), vector_of(start)), bf16_gradients_(bf16_gradients),
          bf16_parameters_(bf16_parameters) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        Gradients sent = gradients;
        if (bf16_gradients_)
            for (auto& gradient : sent)
                std::transform(gradient.begin(), gradient.end(), gradient.begin(), rounded_to_bf16);
        adams_.step(per_rank(sent), learning_rate);
        std::vector<float> w = values_of(adams_.state.w);
        if (bf16_parameters_)
            std::transform(w.begin(), w.end(), w.begin(), rounded_to_bf16);
        return w;
    }

  private:
    reference::scape::AdamS<float> adams_;
    bool bf16_gradients_;
    bool bf16_parameters_;
};

class AdamWReference final : public Sequential {
  public:
    AdamWReference(const Setting& setting, int ranks, const std::vector<float>& start)
        : adamw_(dense_problem(setting, ranks), vector_of(start)) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        adamw_.step(per_rank(gradients), learning_rate);
        return values_of(adamw_.state.w);
    }

  private:
    reference::scape::AdamW<float> adamw_;
};

class ScapeReference final : public Sequential {
  public:
    ScapeReference(const Setting& setting, int ranks, const std::vector<float>& start,
                   const std::vector<problem::Range>& ranges, problem::Payload payload)
        : truestep_(problem_of(setting, ranks, ranges, payload), density_of(setting), vector_of(start)) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        truestep_.step(per_rank(gradients), learning_rate);
        return values_of(truestep_.state.w);
    }

  private:
    static problem::Problem problem_of(const Setting& setting, int ranks,
                                       const std::vector<problem::Range>& ranges,
                                       problem::Payload payload) {
        auto problem = problem::make_problem(problem::Algorithm::scape, ranks, layout_of(setting),
                                             problem::PartitionRule::by_shard, setting.hyper);
        problem.segments = problem::segments(problem.layout, ranges);
        problem.settings.payload = payload;
        return problem;
    }

    reference::scape::Scape<float> truestep_;
};

/// AdamS on the coordinates whose sums were received; the decay applies to all.
class LazyReference {
  public:
    LazyReference(problem::HyperParameters hyper, const std::vector<float>& start)
        : w(start), hyper_(std::move(hyper)), m_(start.size(), 0.0F) {}

    void update(const std::vector<bool>& came, const std::vector<float>& sums, int ranks,
                double learning_rate) {
        const reference::Coefficients<float> scalars(hyper_, ++steps_, learning_rate);
        for (std::size_t i = 0; i < w.size(); ++i) {
            w[i] = w[i] * scalars.decay;
            if (!came[i])
                continue;
            const Vector g = Vector::Constant(1, sums[i] / static_cast<float>(ranks));
            const Vector last = Vector::Constant(1, m_[i]);
            const Vector M = (scalars.b1 * last) + (scalars.a1 * g);
            const Vector u = reference::direction(hyper_.bias_correction, scalars, M, last, g);
            w[i] = w[i] - (scalars.lr * u[0]);
            m_[i] = M[0];
        }
    }

    std::vector<float> w;

  private:
    problem::HyperParameters hyper_;
    std::vector<float> m_;
    Index steps_ = 0;
};

/// The coordinates in section 5's order of selection: larger magnitude first, then the lower index.
std::vector<std::size_t> by_magnitude(const std::vector<float>& values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(values[a]) > std::abs(values[b]);
    });
    return order;
}

class TopKReference final : public Sequential {
  public:
    TopKReference(const Setting& setting, int ranks, const std::vector<float>& start)
        : k_(static_cast<std::size_t>(count_at(setting.size, setting.density))),
          lazy_(setting.hyper, start),
          e_(static_cast<std::size_t>(ranks), std::vector<float>(start.size(), 0.0F)) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        std::vector<bool> came(lazy_.w.size(), false);
        std::vector<float> sums(lazy_.w.size(), 0.0F);
        for (std::size_t rank = 0; rank < e_.size(); ++rank) {
            for (std::size_t i = 0; i < came.size(); ++i)
                e_[rank][i] += gradients[rank][i];
            const auto order = by_magnitude(e_[rank]);
            for (std::size_t place = 0; place < k_; ++place) {
                const std::size_t i = order[place];
                came[i] = true;
                sums[i] += e_[rank][i];
                e_[rank][i] = 0.0F;
            }
        }
        lazy_.update(came, sums, static_cast<int>(e_.size()), learning_rate);
        return lazy_.w;
    }

  private:
    std::size_t k_;
    LazyReference lazy_;
    std::vector<std::vector<float>> e_;
};

/// Computes Ok-Topk without regions, which decide only who adds, not the result.
class OkTopKReference final : public Sequential {
  public:
    OkTopKReference(const Setting& setting, int ranks, const std::vector<float>& start)
        : k_(static_cast<std::size_t>(count_at(setting.size, setting.density))),
          lazy_(setting.hyper, start),
          e_(static_cast<std::size_t>(ranks), std::vector<float>(start.size(), 0.0F)),
          thresholds_(e_.size()) {}

    std::optional<std::vector<float>> step(const Gradients& gradients, double learning_rate) override {
        const bool anew = steps_++ % ok_topk::period == 0;
        const std::size_t d = lazy_.w.size();
        std::vector<std::vector<bool>> selected(e_.size());
        std::vector<bool> came(d, false);
        std::vector<float> sums(d, 0.0F);
        for (std::size_t rank = 0; rank < e_.size(); ++rank) {
            for (std::size_t i = 0; i < d; ++i)
                e_[rank][i] += gradients[rank][i];
            if (anew || off(reaching(e_[rank], thresholds_[rank])))
                thresholds_[rank] = std::abs(e_[rank][by_magnitude(e_[rank])[k_ - 1]]);
            selected[rank] = reaching(e_[rank], thresholds_[rank]);
            for (std::size_t i = 0; i < d; ++i)
                if (selected[rank][i]) {
                    came[i] = true;
                    sums[i] += e_[rank][i];
                }
        }
        if (anew)
            sum_threshold_ = std::abs(sums[by_magnitude(sums)[k_ - 1]]);
        const auto large = reaching(sums, sum_threshold_);
        for (std::size_t i = 0; i < d; ++i)
            came[i] = came[i] && large[i];
        for (std::size_t rank = 0; rank < e_.size(); ++rank)
            for (std::size_t i = 0; i < d; ++i)
                if (came[i] && selected[rank][i])
                    e_[rank][i] = 0.0F;
        if (off(came) && count(came) < k_)
            sum_threshold_ /= ok_topk::nudge;
        else if (off(came))
            sum_threshold_ = std::abs(sums[by_magnitude(sums)[k_ - 1]]);
        lazy_.update(came, sums, static_cast<int>(e_.size()), learning_rate);
        return lazy_.w;
    }

  private:
    static std::size_t count(const std::vector<bool>& which) {
        return static_cast<std::size_t>(std::count(which.begin(), which.end(), true));
    }
    static std::vector<bool> reaching(const std::vector<float>& values, float threshold) {
        std::vector<bool> result;
        result.reserve(values.size());
        for (const float value : values)
            result.push_back(std::abs(value) >= threshold);
        return result;
    }
    [[nodiscard]] bool off(const std::vector<bool>& which) const {
        const auto k = static_cast<double>(k_);
        return std::abs(static_cast<double>(count(which)) - k) > ok_topk::tolerance * k;
    }

    std::size_t k_;
    LazyReference lazy_;
    std::vector<std::vector<float>> e_;
    std::vector<float> thresholds_;
    float sum_threshold_ = 0.0F;
    Index steps_ = 0;
};

std::unique_ptr<Sequential> make_reference(std::string_view name, const Setting& setting, int ranks,
                                           int rank, const std::vector<float>& start) {
    const std::string_view kind = kind_of(name).name;
    if (kind == "diloco")
        return make_diloco_reference(setting, ranks, rank, start);
    if (kind == "gasloc")
        return make_gasloc_reference(setting, ranks, rank, start);
    if (kind == "topk-indices")
        return std::make_unique<TopKReference>(setting, ranks, start);
    if (kind == "ok-topk")
        return std::make_unique<OkTopKReference>(setting, ranks, start);
    if (kind == "scape" || kind == "scape-using-up" || kind == "scape-bf16")
        return std::make_unique<ScapeReference>(setting, ranks, start, shards(setting.size, ranks),
                                                kind == "scape-bf16" ? problem::Payload::bf16
                                                                     : problem::Payload::fp32);
    if (kind == "unsharded")
        return std::make_unique<ScapeReference>(setting, ranks, start, word_shards(setting.size, ranks),
                                                problem::Payload::fp32);
    if (kind == "adamw")
        return std::make_unique<AdamWReference>(setting, ranks, start);
    return std::make_unique<DenseReference>(setting, ranks, start, kind != "dense",
                                            kind == "dense-bf16-all");
}

} // namespace

Index wrong_parameters(std::string_view name, const Setting& setting, const Links& links, int rounds) {
    using problem::DataClass;
    const std::vector<float> start = problem::initial_parameters(DataClass::normal, 7, setting.size);
    const int ranks = links.all.size();
    const int rank = links.all.rank();
    const auto peer = make_peer(name, setting, links, start);
    const auto reference = make_reference(name, setting, ranks, rank, start);
    const Index steps = rounds * inner_steps(kind_of(name), setting);
    Index wrong = 0;
    for (Index step = 1; step <= steps; ++step) {
        Gradients gradients(static_cast<std::size_t>(ranks));
        for (int of_rank = 0; of_rank < ranks; ++of_rank)
            for (Index index = 0; index < setting.size; ++index)
                gradients[static_cast<std::size_t>(of_rank)].push_back(
                    problem::gradient_value(DataClass::normal, 7, of_rank, step, index));
        const double learning_rate = 1e-3 / static_cast<double>(step);
        peer->step(gradients[static_cast<std::size_t>(rank)], learning_rate);
        const auto expected = reference->step(gradients, learning_rate);
        if (!expected)
            continue;
        const auto found = peer->parameters();
        for (std::size_t i = 0; i < expected->size(); ++i)
            wrong += std::bit_cast<std::uint32_t>(found[i]) != std::bit_cast<std::uint32_t>((*expected)[i]);
    }
    peer->finish();
    return wrong;
}

} // namespace truestep::peers
