// Supplies gradients of a real training to an implementation, and records its loss curve.
#include "learner.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace truestep::training {

namespace {

/// A different value makes a different digest, whatever follows.
void add(std::uint64_t& digest, std::uint64_t value) {
    digest = std::rotl(digest ^ value, 27) * 0x9e37'79b9'7f4a'7c15U;
}

} // namespace

Learner::Learner(const ConvergeSettings& settings, const Text& text, std::uint64_t seed, bool turned)
    : settings_(settings), seed_(seed), turned_(turned) {
    const Plan& plan = settings.plan;
    ranks_.reserve(static_cast<std::size_t>(plan.ranks));
    for (int rank = 0; rank < plan.ranks; ++rank)
        ranks_.push_back({Windows(text, plan.shape.context, plan.measured_windows),
                          Model<float>(plan.shape, plan.batch),
                          0,
                          {},
                          0});
}

gate::GradientSource::Step Learner::next(int rank, std::span<const float> parameters) {
    const Plan& plan = settings_.plan;
    OfRank& mine = ranks_[static_cast<std::size_t>(rank)];
    if (is_measured(plan, mine.step))
        measure(rank, mine, parameters);
    if (mine.step == plan.steps)
        return {.ends = true, .restarts = false, .learning_rate = 0.0, .parts = {}};
    const std::size_t step = ++mine.step;
    Step next{.ends = false,
              .restarts = step == settings_.restart_at,
              .learning_rate = learning_rate_at(plan, step),
              .parts = {}};
    const int of = turned_ ? (rank + 1) % plan.ranks : rank;
    const auto parts = static_cast<float>(settings_.micro_batches);
    for (std::size_t part = 0; part < settings_.micro_batches; ++part) {
        std::vector<float>& gradient = next.parts.emplace_back(parameters.size());
        const Batch& batch =
            mine.windows.drawn(seed_, of, (step * settings_.micro_batches) + part, plan.batch);
        if (!std::isfinite(mine.model.loss_and_gradient(parameters, batch, gradient)))
            throw std::runtime_error("its loss is not a number at step " + std::to_string(step));
        for (float& value : gradient)
            value /= parts;
    }
    return next;
}

void Learner::seen(int rank, std::span<const float> values) {
    std::uint64_t& digest = ranks_[static_cast<std::size_t>(rank)].digest;
    for (const float value : values)
        add(digest, std::bit_cast<std::uint32_t>(value));
}

void Learner::seen(int rank, std::span<const std::uint8_t> bytes) {
    std::uint64_t& digest = ranks_[static_cast<std::size_t>(rank)].digest;
    for (const std::uint8_t byte : bytes)
        add(digest, byte);
}

/// Ranks share the windows. Each measures its own parameters.
void Learner::measure(int rank, OfRank& mine, std::span<const float> parameters) const {
    const Plan& plan = settings_.plan;
    const auto ranks = static_cast<std::size_t>(plan.ranks);
    const std::size_t count = mine.windows.measured_count();
    const std::size_t end = count * (static_cast<std::size_t>(rank) + 1) / ranks;
    double sum = 0;
    for (std::size_t first = count * static_cast<std::size_t>(rank) / ranks; first < end;
         first += plan.batch) {
        const std::size_t taken = std::min(plan.batch, end - first);
        sum +=
            static_cast<double>(taken) * mine.model.loss(parameters, mine.windows.measured(first, taken));
    }
    mine.losses.push_back(sum / static_cast<double>(count));
}

std::uint64_t Learner::digest() const {
    std::uint64_t all = 0;
    for (const OfRank& rank : ranks_)
        add(all, rank.digest);
    return all;
}

Curve Learner::curve(const std::string& name) const {
    Curve curve{name, seed_, settings_.plan.learning_rate, {}};
    for (std::size_t step = 0; step <= settings_.plan.steps; ++step) {
        if (!is_measured(settings_.plan, step))
            continue;
        double loss = 0;
        for (const OfRank& rank : ranks_)
            loss += curve.points.size() < rank.losses.size() ? rank.losses[curve.points.size()]
                                                             : std::numeric_limits<double>::quiet_NaN();
        curve.points.push_back({step, loss, 0});
    }
    return curve;
}

} // namespace truestep::training
