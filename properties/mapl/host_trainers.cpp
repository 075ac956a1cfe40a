// Stages are trained by the sharded optimizers of distributed/scape, over the ranks of their replicas.
#include <utility>

#include <truestep/distributed/scape/adams.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>

#include "end_factory.hpp"

namespace truestep::properties::mapl {

namespace {

using distributed::Communicator;

class HostScape final : public AnyTrainer {
  public:
    HostScape(const StageModel& model, const Floats& parameters, Communicator& replicas)
        : made_(model.problem, model.ranges, model.density,
                distributed::scape::make_host_backend(model.problem, parameters), replicas, {}) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        made_.step(gradient, learning_rate);
    }
    Floats parameters() override {
        const std::span<const float> w = made_.parameters();
        return {w.begin(), w.end()};
    }
    std::any state() override { return made_.state(); }
    void restore(const std::any& state) override {
        made_.restore(std::any_cast<const distributed::scape::RankState&>(state));
    }

  private:
    distributed::scape::Scape made_;
};

class HostAdamS final : public AnyTrainer {
  public:
    HostAdamS(const StageModel& model, const Floats& parameters, Communicator& replicas)
        : made_(model.problem, model.ranges, parameters, replicas, {}) {}
    void step(std::span<const float> gradient, double learning_rate) override {
        made_.step(gradient, learning_rate);
    }
    Floats parameters() override {
        const std::span<const float> w = made_.parameters();
        return {w.begin(), w.end()};
    }
    std::any state() override {
        const std::span<const float> m = made_.shard_moment();
        return Kept{made_.steps(), parameters(), {m.begin(), m.end()}};
    }
    void restore(const std::any& state) override {
        const auto& kept = std::any_cast<const Kept&>(state);
        made_.restore(kept.steps, kept.parameters, kept.shard_moment);
    }

  private:
    struct Kept {
        Index steps;
        Floats parameters;
        Floats shard_moment;
    };
    distributed::scape::AdamS made_;
};

} // namespace

StartsTrainer host_trainers() {
    return [](const StageModel& model, const Floats& parameters,
              Communicator& replicas) -> std::unique_ptr<AnyTrainer> {
        if (model.problem.algorithm == problem::Algorithm::adams)
            return std::make_unique<HostAdamS>(model, parameters, replicas);
        return std::make_unique<HostScape>(model, parameters, replicas);
    };
}

} // namespace truestep::properties::mapl
