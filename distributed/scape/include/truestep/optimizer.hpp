#pragma once

#include <memory>
#include <span>

#include <truestep/distributed/in_process.hpp>
#include <truestep/distributed/scape/buckets.hpp>
#include <truestep/distributed/scape/checkpoint.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/density.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/problem.hpp>

// The header for users of the sharded optimizer. The complete code of a rank:
//
//     truestep::Settings settings;
//     settings.density = truestep::DensitySchedule::geometric(1.0, 0.01, 10'000);
//     const truestep::Layout model({{"wq", 4096 * 4096}, {"norm", 4096, true}});
//     auto optimizer = truestep::make_optimizer(model, settings, *communicator, initial_parameters);
//     optimizer->step(gradient, learning_rate); // all ranks; the next mask travels while you compute
//     use(optimizer->parameters());
//     truestep::save_checkpoint(*optimizer, *communicator, "checkpoints");
//
// The communicator is one of run_ranks or InProcessGroup (threads), or make_mpi_communicator of
// <truestep/distributed/mpi.hpp>.

namespace truestep {

using distributed::Aborted;
using distributed::Communicator;
using distributed::InProcessGroup;
using distributed::run_ranks;
using distributed::Traffic;
using distributed::scape::Buckets;
using distributed::scape::buckets_of;
using distributed::scape::Halted;
using distributed::scape::latest_checkpoint;
using distributed::scape::Reduction;
using distributed::scape::RefusedStep;
using distributed::scape::restore_checkpoint;
using distributed::scape::save_checkpoint;
using distributed::scape::Statistics;
using problem::BiasCorrection;
using problem::DensitySchedule;
using problem::HyperParameters;
using problem::Layout;
using problem::PartitionRule;
using problem::Tensor;
using Optimizer = distributed::scape::Scape;

struct Settings {
    HyperParameters hyper;
    DensitySchedule density = DensitySchedule::constant(0.01);
    PartitionRule partition = PartitionRule::by_shard;
    Reduction reduction = Reduction::ordered;
    int threads = 1; ///< that share one rank's passes; they change no bit
};

/// One rank of SCAPE on the host. All ranks call it, with the same model, settings and parameters;
/// it throws truestep::Error if they are impossible or not the same. The communicator has to
/// outlive the optimizer.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(Layout model, const Settings& settings,
                                                        Communicator& communicator,
                                                        std::span<const float> parameters);

} // namespace truestep
