// Duplicates MPI communicators with a timeout, and paces the waiting for other ranks.
#include "mpi_ranks.hpp"

#include <stdexcept>
#include <thread>

#include "mpi_watch.hpp"

namespace truestep::distributed {

bool Patience::pause() {
    constexpr std::chrono::microseconds of_work{5};
    constexpr std::chrono::milliseconds eager{1};
    constexpr std::chrono::microseconds nap{50};
    const auto now = Clock::now();
    if (now - last_pause_ > of_work)
        idle_since_ = now;
    if (now - idle_since_ > eager)
        std::this_thread::sleep_for(nap);
    else
        std::this_thread::yield();
    last_pause_ = Clock::now();
    if (last_pause_ - last_look_ < eager)
        return false;
    last_look_ = last_pause_;
    return true;
}

void wait_in_set_up(MPI_Request request, MPI_Comm ranks, const MpiOptions& options) {
    MpiWatch watch(ranks, options.timeout);
    Patience patience(options.timeout);
    for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), done == 0;)
        if (patience.pause()) {
            const MpiWatch::Wait wait{.started = 1, .since = patience.waited(), .in_set_up = true};
            watch.answer(wait);
            if (patience.over())
                watch.time_out(wait, "the set-up of the communicator");
        }
}

MPI_Comm duplicate_ranks(MPI_Comm ranks, const MpiOptions& options) {
    MPI_Comm duplicate = MPI_COMM_NULL;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Comm_idup(ranks, &duplicate, &request);
    wait_in_set_up(request, ranks, options);
    MPI_Comm_set_errhandler(duplicate, MPI_ERRORS_RETURN);
    return duplicate;
}

void check_mpi_runs() {
    if (!mpi_runs())
        throw std::logic_error("MPI has not been started, or has ended; see MpiSession");
}

} // namespace truestep::distributed
