#include "training.hpp"

#include <truestep/problem/error.hpp>

namespace truestep::tool {

namespace {

/// Whoever writes "--converge" is handed over before it is parsed.
[[noreturn]] int not_here() {
    throw Error("--converge takes no value; write it out, and by itself");
}

} // namespace

bool trains() {
    return false;
}

gate::System with_training(gate::System system) {
    if (system.learning)
        system.train = [](const gate::Training&) -> int { not_here(); };
    return system;
}

int planted_training(const PlantedTraining& /*asked*/, const gate::System& /*system*/,
                     const std::vector<std::string>& /*arguments*/) {
    not_here();
}

} // namespace truestep::tool
