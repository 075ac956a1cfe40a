// Counts MPI's collective calls, and holds pieces of messages back, by MPI's profiling interface.
#include "mpi_counted.hpp"

#include <set>

#include <mpi.h>

namespace mpi_counted {
namespace {

long count = 0;
bool holds = false;
std::set<int> tags_seen;
std::set<MPI_Request> held;

int counted(int code) {
    ++count;
    return code;
}

} // namespace

long collectives() {
    return count;
}

void hold_all_but_first_pieces(bool hold) {
    holds = hold;
    tags_seen.clear();
    held.clear();
}

} // namespace mpi_counted

// NOLINTBEGIN(readability-identifier-naming): MPI's names

using mpi_counted::counted;

extern "C" {

// All functions in mpi.h of MPI 3.1 that wait, or may wait, for other ranks of a communicator.
#define COUNTED(name, parameters, arguments)                                                               \
    int MPI_##name parameters {                                                                            \
        return counted(PMPI_##name arguments);                                                             \
    }

COUNTED(Barrier, (MPI_Comm c), (c))
COUNTED(Ibarrier, (MPI_Comm c, MPI_Request* r), (c, r))
COUNTED(Bcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c), (b, n, t, root, c))
COUNTED(Ibcast, (void* b, int n, MPI_Datatype t, int root, MPI_Comm c, MPI_Request* r),
        (b, n, t, root, c, r))
COUNTED(Reduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c),
        (s, b, n, t, o, root, c))
COUNTED(Ireduce,
        (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, int root, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, root, c, r))
COUNTED(Allreduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (s, b, n, t, o, c))
COUNTED(Iallreduce, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r))
COUNTED(Gather,
        (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, int root, MPI_Comm c),
        (s, m, u, b, n, t, root, c))
COUNTED(Gatherv,
        (const void* s, int m, MPI_Datatype u, void* b, const int* n, const int* d, MPI_Datatype t,
         int root, MPI_Comm c),
        (s, m, u, b, n, d, t, root, c))
COUNTED(Scatter,
        (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, int root, MPI_Comm c),
        (s, m, u, b, n, t, root, c))
COUNTED(Scatterv,
        (const void* s, const int* m, const int* d, MPI_Datatype u, void* b, int n, MPI_Datatype t,
         int root, MPI_Comm c),
        (s, m, d, u, b, n, t, root, c))
COUNTED(Allgather, (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, MPI_Comm c),
        (s, m, u, b, n, t, c))
COUNTED(Iallgather,
        (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, MPI_Comm c, MPI_Request* r),
        (s, m, u, b, n, t, c, r))
COUNTED(Allgatherv,
        (const void* s, int m, MPI_Datatype u, void* b, const int* n, const int* d, MPI_Datatype t,
         MPI_Comm c),
        (s, m, u, b, n, d, t, c))
COUNTED(Iallgatherv,
        (const void* s, int m, MPI_Datatype u, void* b, const int* n, const int* d, MPI_Datatype t,
         MPI_Comm c, MPI_Request* r),
        (s, m, u, b, n, d, t, c, r))
COUNTED(Alltoall, (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, MPI_Comm c),
        (s, m, u, b, n, t, c))
COUNTED(Ialltoall,
        (const void* s, int m, MPI_Datatype u, void* b, int n, MPI_Datatype t, MPI_Comm c, MPI_Request* r),
        (s, m, u, b, n, t, c, r))
COUNTED(Alltoallv,
        (const void* s, const int* m, const int* e, MPI_Datatype u, void* b, const int* n, const int* d,
         MPI_Datatype t, MPI_Comm c),
        (s, m, e, u, b, n, d, t, c))
COUNTED(Ialltoallw,
        (const void* s, const int* m, const int* e, const MPI_Datatype* u, void* b, const int* n,
         const int* d, const MPI_Datatype* t, MPI_Comm c, MPI_Request* r),
        (s, m, e, u, b, n, d, t, c, r))
COUNTED(Ireduce_scatter,
        (const void* s, void* b, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c, MPI_Request* r),
        (s, b, n, t, o, c, r))
COUNTED(Reduce_scatter, (const void* s, void* b, const int* n, MPI_Datatype t, MPI_Op o, MPI_Comm c),
        (s, b, n, t, o, c))
COUNTED(Scan, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, b, n, t, o, c))
COUNTED(Exscan, (const void* s, void* b, int n, MPI_Datatype t, MPI_Op o, MPI_Comm c), (s, b, n, t, o, c))
COUNTED(Comm_dup, (MPI_Comm c, MPI_Comm* made), (c, made))
COUNTED(Comm_idup, (MPI_Comm c, MPI_Comm* made, MPI_Request* r), (c, made, r))
COUNTED(Comm_split, (MPI_Comm c, int color, int key, MPI_Comm* made), (c, color, key, made))
COUNTED(Comm_create, (MPI_Comm c, MPI_Group g, MPI_Comm* made), (c, g, made))
COUNTED(Comm_free, (MPI_Comm * c), (c))
COUNTED(Win_create, (void* b, MPI_Aint n, int unit, MPI_Info i, MPI_Comm c, MPI_Win* w),
        (b, n, unit, i, c, w))
COUNTED(Win_fence, (int assertion, MPI_Win w), (assertion, w))

int MPI_Irecv(void* buffer, int size, MPI_Datatype type, int from, int tag, MPI_Comm ranks,
              MPI_Request* request) {
    const int code = PMPI_Irecv(buffer, size, type, from, tag, ranks, request);
    if (mpi_counted::holds && tag != 0 && !mpi_counted::tags_seen.insert(tag).second)
        mpi_counted::held.insert(*request);
    return code;
}

int MPI_Test(MPI_Request* request, int* done, MPI_Status* status) {
    if (mpi_counted::held.contains(*request)) {
        *done = 0;
        return MPI_SUCCESS;
    }
    return PMPI_Test(request, done, status);
}

} // extern "C"

// NOLINTEND(readability-identifier-naming)
