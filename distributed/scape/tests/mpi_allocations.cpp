// allocation_test.cpp's count where ranks are processes. Memory of the MPI library is not ours, and
// not counted: it is written in C.
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <truestep/distributed/mpi.hpp>
#include <truestep/distributed/scape/host_backend.hpp>
#include <truestep/distributed/scape/scape.hpp>
#include <truestep/problem/data.hpp>

#include "counted_memory.hpp"

namespace truestep::distributed::scape {
namespace {

std::size_t allocations_of(Communicator& communicator, const problem::Groups& groups, Reduction reduction,
                           bool in_buckets) {
    const problem::Layout model(
        {{"embedding", 150'000, false}, {"norm", 513, true}, {"head", 40'000, false}});
    problem::HyperParameters hyper;
    hyper.groups = groups;
    auto problem = problem::make_problem(problem::Algorithm::scape, communicator.size(), model,
                                         problem::PartitionRule::by_shard, hyper);
    const auto start = initial_parameters(problem::DataClass::normal, 1, model.size());
    const auto gradient =
        problem::gradient(problem::DataClass::normal, 1, communicator.rank(), 1, model.size());
    auto backend = make_host_backend(problem, start, 1);
    auto ranges = problem::ranges(model, communicator.size(), problem::PartitionRule::by_shard);
    Scape optimizer(std::move(problem), std::move(ranges), problem::DensitySchedule::constant(0.02),
                    std::move(backend), communicator, {reduction});
    for (Index step = 1; step <= 8; ++step) {
        if (step == 3)
            count_allocations();
        for (std::size_t tensor = 3; in_buckets && tensor-- > 0;)
            optimizer.bucket({&tensor, 1}, gradient);
        optimizer.step(gradient, 0.01);
        optimizer.progress();
    }
    const std::size_t found = counted_allocations().count;
    std::printf("rank %d of %d, groups %s, %s%s: %zu allocations in 6 steps\n", communicator.rank(),
                communicator.size(), problem::groups_text(groups).c_str(), name(reduction).data(),
                in_buckets ? ", buckets" : "", found);
    return found;
}

} // namespace
} // namespace truestep::distributed::scape

int main(int argument_count, char** arguments) {
    using namespace truestep::distributed;
    using namespace truestep::distributed::scape;
    MpiSession session(argument_count, arguments);
    const auto communicator = make_mpi_communicator();
    std::size_t found = 0;
    for (const bool in_buckets : {false, true}) {
        found += allocations_of(*communicator, {}, Reduction::ordered, in_buckets);
        found += allocations_of(*communicator, {}, Reduction::native, in_buckets);
        if (communicator->size() > 2)
            found += allocations_of(*communicator, {communicator->size() - 1, 1}, Reduction::ordered,
                                    in_buckets);
    }
    return found == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
