// Dense AdamW, sharded, as a peer: the worker of dense training, over one tensor.
#include <algorithm>
#include <utility>

#include <truestep/distributed/dense/worker.hpp>
#include <truestep/problem/error.hpp>

#include "peers/kinds.hpp"

namespace truestep::peers {
namespace {

namespace dense = distributed::dense;

dense::Problem problem_of(const Setting& setting, int ranks) {
    dense::Group group = dense::group_of(dense::Rule::adamw, {"all"});
    group.beta1 = setting.hyper.beta1;
    group.beta2 = setting.hyper.beta2;
    group.epsilon = setting.hyper.epsilon;
    group.weight_decay = setting.hyper.weight_decay;
    dense::Problem problem;
    problem.tensors = {{"all", {setting.size}, "all"}};
    problem.groups = {group};
    problem.ranks = ranks;
    problem.micro_batches.assign(static_cast<std::size_t>(ranks), 1);
    return problem;
}

class AdamW final : public Peer {
  public:
    AdamW(const Setting& setting, Communicator& communicator, std::span<const float> parameters)
        : problem_(problem_of(setting, communicator.size())),
          communicator_(communicator), options_{.threads = setting.threads},
          worker_(std::make_unique<dense::Worker>(problem_, parameters, communicator, options_)) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        if (!worker_->step(gradient, {learning_rate}))
            throw Error("rank " + std::to_string(communicator_.rank()) + ": a gradient is not finite");
    }
    [[nodiscard]] std::span<const float> parameters() const override { return worker_->parameters(); }

    [[nodiscard]] State state() override {
        const dense::State& now = worker_->state();
        return State{{{"w", {now.w.begin(), now.w.end()}},
                      {"m", {now.m.begin(), now.m.end()}},
                      {"v", {now.v.begin(), now.v.end()}}},
                     {{"steps", {static_cast<std::uint64_t>(now.steps)}}}};
    }
    void restore(const State& state) override {
        dense::State next = worker_->state();
        for (auto [name, vector] : {std::pair{"w", &next.w}, {"m", &next.m}, {"v", &next.v}})
            std::ranges::copy(values_in(state, name, vector->size()), vector->begin());
        next.steps = count_in(state, "steps");
        worker_ = std::make_unique<dense::Worker>(problem_, std::move(next), communicator_, options_);
    }

  private:
    dense::Problem problem_;
    Communicator& communicator_;
    dense::Options options_;
    std::unique_ptr<dense::Worker> worker_;
};

} // namespace

std::unique_ptr<Peer> make_adamw(const Setting& setting, Communicator& communicator,
                                 std::span<const float> parameters) {
    return std::make_unique<AdamW>(setting, communicator, parameters);
}

} // namespace truestep::peers
