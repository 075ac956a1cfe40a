#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/model.hpp"

// Functions that the subcommands of `truestep model` share.

namespace truestep::model {

/// A GH200 node as the performance notes have it: 400 Gbit/s a node, 90 % of 4 TB/s.
[[nodiscard]] model::Machine gh200();
/// The machine at which a fit starts: messages have no overhead at P = 4.
[[nodiscard]] model::Machine no_machine();

/// Reads the rows of files of bench_peers --json, with the least time of each, since disturbances
/// only add to it. Throws truestep::Error for an invalid file, or one that was not measured on the
/// shaped network.
[[nodiscard]] std::vector<model::Measured> read_measured(const std::vector<std::string>& files);
/// Writes the plots of docs/cost-model.md.
void write_plots(const std::filesystem::path& folder, const std::vector<std::string>& measured);

} // namespace truestep::model
