#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/data.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/verify/scape/verify_trace.hpp>

namespace truestep::distributed::scape {

using problem::DataClass;
using problem::gradient_value;
using problem::initial_parameter;

/// One run of the sharded implementation, compared with the reference.
struct CheckSetting {
    problem::Problem problem;
    problem::PartitionRule partition = problem::PartitionRule::by_shard;
    problem::DensitySchedule density = problem::DensitySchedule::constant(0.1);
    Reduction reduction = Reduction::ordered;
    Index steps = 1;
    double learning_rate = 0.01;
    std::uint64_t seed = 1;
    DataClass data = DataClass::normal;
    int threads = 1;         ///< of the host backend
    Index largest_piece = 0; ///< of the received values; 0: the implementation's own choice
};

struct CheckOutcome {
    std::optional<verify::TraceVerdict> verdict; ///< on rank 0
    std::string replica_drift; ///< empty, or the first step and rank whose w, m or mask is not rank 0's
    double seconds = 0.0;      ///< of the implementation's steps, without the checking

    [[nodiscard]] verify::Status status() const {
        if (!replica_drift.empty())
            return verify::Status::failed;
        return verdict ? verdict->status : verify::Status::untested;
    }
};

/// Runs the implementation on this rank, and writes the whole run as a trace with the other ranks'
/// help. All ranks call it; rank 0 writes. Returns the first replica that drifted, or "", the same
/// on all ranks.
[[nodiscard]] CheckOutcome run_and_record(const CheckSetting& setting, Communicator& communicator,
                                          const std::filesystem::path& trace);

/// Runs, records and verifies at the level that the reduction claims: free-running at EXACT, step
/// by step at REL. All ranks call it; only rank 0's outcome has a verdict.
[[nodiscard]] CheckOutcome check_sharded(const CheckSetting& setting, Communicator& communicator,
                                         const std::filesystem::path& trace);

} // namespace truestep::distributed::scape
