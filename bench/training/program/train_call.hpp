#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "train_results.hpp"

namespace truestep::training {

/// The options of `truestep train`.
struct TrainCall : TrainAsked {
    training::Plan plan;
    std::string communicator = "in_process";
    std::optional<std::size_t> warm_up;
    std::string correction{problem::name(training::Plan().hyper.bias_correction)};
};

void add_train_options(CLI::App& command, TrainCall& asked);

} // namespace truestep::training
