#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "model/model.hpp"

// What the subcommands of `truestep model` share.

namespace truestep::model {

/// A GH200 node as the performance notes have it: 400 Gbit/s a node, 90 % of 4 TB/s.
[[nodiscard]] model::Machine gh200();
/// What a fit starts from: messages cost nothing of their own at P = 4.
[[nodiscard]] model::Machine no_machine();

/// The rows of files of bench_peers --json, each with the least of its times: what others on the machine do
/// only adds to them. Throws truestep::Error for a file that is none, or not of the shaped network.
[[nodiscard]] std::vector<model::Measured> read_measured(const std::vector<std::string>& files);
/// Writes the plots of docs/cost-model.md.
void write_plots(const std::filesystem::path& folder, const std::vector<std::string>& measured);

} // namespace truestep::model
