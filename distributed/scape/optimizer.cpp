// Makes SCAPE's optimizer for users from a model, settings and a communicator.
#include <truestep/optimizer.hpp>

#include <utility>

#include <truestep/distributed/scape/host_backend.hpp>

std::unique_ptr<truestep::Optimizer> truestep::make_optimizer(Layout model, const Settings& settings,
                                                              Communicator& communicator,
                                                              std::span<const float> parameters) {
    auto ranges = problem::ranges(model, communicator.size(), settings.partition);
    auto problem = problem::make_problem(problem::Algorithm::scape, communicator.size(), std::move(model),
                                         settings.partition, settings.hyper);
    auto backend = distributed::scape::make_host_backend(problem, parameters, settings.threads);
    return std::make_unique<Optimizer>(std::move(problem), std::move(ranges), settings.density,
                                       std::move(backend), communicator,
                                       Optimizer::Options{settings.reduction});
}
