// What replicas share, as plain as can be: one exchange after the other, and the reference's optimizers.
#include "plain_replicas.hpp"

#include <algorithm>
#include <utility>

#include <truestep/reference/scape/adams.hpp>
#include <truestep/reference/scape/scape.hpp>

namespace truestep::properties::mapl::plain {

namespace {

using distributed::Communicator;
using Values = reference::Vector<float>;

reference::PerRank<float> of_all(Communicator& replicas, const std::vector<float>& own) {
    const auto ranks = static_cast<std::size_t>(replicas.size());
    const std::vector<std::size_t> sizes(ranks, own.size() * sizeof(float));
    std::vector<float> all(own.size() * ranks);
    replicas.start_all_gather(distributed::Traffic::gradient, own.data(), all.data(), sizes)->wait();
    reference::PerRank<float> made;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        made.emplace_back(
            Eigen::Map<const Values>(all.data() + rank * own.size(), static_cast<Index>(own.size())));
    return made;
}

Values values_of(std::span<const float> given) {
    return Eigen::Map<const Values>(given.data(), static_cast<Index>(given.size()));
}

template <class Optimizer>
class PlainTrainer final : public AnyTrainer {
  public:
    PlainTrainer(Wrong wrong, Optimizer optimizer, Communicator& replicas)
        : wrong_(wrong), optimizer_(std::move(optimizer)), replicas_(replicas) {}

    void step(std::span<const float> gradient, double learning_rate) override {
        std::vector<float> own(gradient.begin(), gradient.end());
        if (wrong_ == divided_twice)
            for (float& value : own)
                value /= static_cast<float>(replicas_.size());
        optimizer_.step(of_all(replicas_, own), learning_rate);
    }
    Floats parameters() override {
        const Values& w = optimizer_.state.w;
        return {w.data(), w.data() + w.size()};
    }
    std::any state() override { return optimizer_.state; }
    void restore(const std::any& state) override {
        optimizer_.state = std::any_cast<const decltype(optimizer_.state)&>(state);
    }

  private:
    Wrong wrong_;
    Optimizer optimizer_;
    Communicator& replicas_;
};

} // namespace

namespace {

/// Each rank adds up everything: the right bits, unless another bug is planted, but too many bytes sent.
std::vector<float> mean_of_whole_copies(Wrong wrong, Communicator& replicas,
                                        const std::vector<float>& own) {
    reference::PerRank<float> all = of_all(replicas, own);
    if (wrong == own_part_first)
        std::rotate(all.begin(), all.begin() + replicas.rank(), all.end());
    Values sum = all[0];
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        sum += all[rank];
    sum /= static_cast<float>(all.size());
    return {sum.data(), sum.data() + sum.size()};
}

} // namespace

void expect_same(Communicator& replicas, const std::vector<float>& own) {
    const reference::PerRank<float> all = of_all(replicas, own);
    for (const auto& other : all)
        if ((other != all.front()).any())
            throw Error("a replica begins with other values than replica 0; start all with the same");
}

std::vector<float> mean_over_replicas(Wrong wrong, Communicator& replicas, const std::vector<float>& own) {
    if (wrong == own_gradient_followed)
        return own;
    if (wrong == own_part_first || wrong == whole_copies)
        return mean_of_whole_copies(wrong, replicas, own);
    const auto ranks = static_cast<std::size_t>(replicas.size());
    const std::size_t each = (own.size() + ranks - 1) / ranks;
    std::vector<float> mean(own.size());
    for (std::size_t owner = 0; owner < ranks; ++owner) { // one after the other
        const std::size_t begin = std::min(own.size(), owner * each);
        const std::size_t count = std::min(own.size(), begin + each) - begin;
        const bool mine = static_cast<int>(owner) == replicas.rank();
        std::vector<std::size_t> to(ranks, 0);
        to[owner] = count * sizeof(float);
        std::vector<float> parts(mine ? count * ranks : 0);
        const std::vector<std::size_t> from(ranks, mine ? count * sizeof(float) : 0);
        replicas
            .start_all_to_all(distributed::Traffic::gradient, own.data() + begin, to, parts.data(), from)
            ->wait();
        const std::size_t added = wrong == replica_left_out && ranks > 1 ? ranks - 1 : ranks;
        for (std::size_t i = 0; mine && i < count; ++i) {
            float sum = parts[i];
            for (std::size_t rank = 1; rank < added; ++rank)
                sum += parts[rank * count + i];
            mean[begin + i] = sum / static_cast<float>(ranks);
        }
        std::vector<std::size_t> sizes(ranks, 0);
        sizes[owner] = count * sizeof(float);
        replicas
            .start_all_gather(distributed::Traffic::gradient, mean.data() + begin, mean.data() + begin,
                              sizes)
            ->wait();
    }
    return mean;
}

StartsTrainer plain_trainers(Wrong wrong) {
    return [wrong](const StageModel& model, const Floats& parameters,
                   Communicator& replicas) -> std::unique_ptr<AnyTrainer> {
        using AdamS = reference::scape::AdamS<float>;
        using Scape = reference::scape::Scape<float>;
        if (model.problem.algorithm == problem::Algorithm::adams)
            return std::make_unique<PlainTrainer<AdamS>>(wrong, AdamS(model.problem, values_of(parameters)),
                                                         replicas);
        return std::make_unique<PlainTrainer<Scape>>(
            wrong, Scape(model.problem, model.density, values_of(parameters)), replicas);
    };
}

} // namespace truestep::properties::mapl::plain
