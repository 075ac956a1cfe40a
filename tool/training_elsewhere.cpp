// Runs trainings as the separate program `converge`, in tools that do not link the trainer.
#include "training.hpp"

#include <truestep/gate/subcommands.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::tool {

namespace {

int train_elsewhere(const std::vector<std::string>& arguments) {
    const std::string name = "converge";
    const auto program = gate::find_program(name);
    if (program.empty())
        throw Error(gate::missing_program(name));
    return gate::become(program, arguments);
}

} // namespace

gate::System with_training(gate::System system) {
    if (system.learning)
        system.train = [](const gate::Training& asked) { return train_elsewhere(asked.arguments); };
    return system;
}

int planted_training(const PlantedTraining& /*asked*/, const gate::System& /*system*/,
                     const std::vector<std::string>& arguments) {
    return train_elsewhere(arguments);
}

} // namespace truestep::tool
