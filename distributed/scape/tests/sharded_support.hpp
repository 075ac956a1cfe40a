#pragma once

#include <utility>
#include <vector>

#include <truestep/distributed/counting.hpp>
#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/host_backend.hpp>

#include "check.hpp"

// A small model for the tests of the sharded implementation, and one rank of it that tests can
// inspect.

namespace truestep::distributed::scape {

inline problem::Layout small_model() {
    return problem::Layout({{"embed", 4500, false},
                            {"norm", 33, true},
                            {"gate", 1, false},
                            {"mlp", 901, false},
                            {"tiny", 7, false}});
}

inline CheckSetting make_setting(int workers, double density, problem::PartitionRule partition,
                                 const problem::HyperParameters& hyper = {},
                                 problem::Layout model = small_model(),
                                 problem::Algorithm algorithm = problem::Algorithm::scape) {
    CheckSetting setting{problem::make_problem(algorithm, workers, std::move(model), partition, hyper),
                         partition, problem::DensitySchedule::constant(density)};
    setting.steps = 5;
    return setting;
}

/// A rank of SCAPE over a counting communicator, with synthetic gradients.
class Rank {
  public:
    Rank(Communicator& inner, const CheckSetting& setting, const Disturbance& disturbance = {})
        : setting_(setting), counting_(inner, disturbance),
          optimizer_(setting.problem,
                     problem::ranges(setting.problem.layout, setting.problem.workers, setting.partition),
                     setting.density, make_host_backend(setting.problem, initial(setting)), counting_,
                     {setting.reduction, setting.largest_piece}) {}

    std::vector<float> gradient(Index step) const {
        std::vector<float> g;
        for (Index i = 0; i < setting_.problem.layout.size(); ++i)
            g.push_back(gradient_value(setting_.data, setting_.seed, counting_.rank(), step, i));
        return g;
    }
    void step(Index number) { optimizer_.step(gradient(number), 0.01); }

    CountingCommunicator& counting() { return counting_; }
    Scape& optimizer() { return optimizer_; }

  private:
    static std::vector<float> initial(const CheckSetting& setting) {
        return initial_parameters(setting.data, setting.seed, setting.problem.layout.size());
    }

    CheckSetting setting_;
    CountingCommunicator counting_;
    Scape optimizer_;
};

} // namespace truestep::distributed::scape
