#pragma once

#include <string>

#include <scape/training/run.hpp>

#include "peers/peer.hpp"

namespace scape::training {

/// The peer that the text names, with the plan's settings. Throws scape::Error, one line.
[[nodiscard]] peers::Choice optimizer_of(const std::string& text, const Plan& plan);

} // namespace scape::training
