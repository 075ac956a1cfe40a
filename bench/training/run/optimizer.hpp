#pragma once

#include <string>

#include <truestep/training/run.hpp>

#include "peers/peer.hpp"

namespace truestep::training {

/// The peer that the text names, with the plan's settings. Throws truestep::Error, one line.
[[nodiscard]] peers::Choice optimizer_of(const std::string& text, const Plan& plan);

} // namespace truestep::training
