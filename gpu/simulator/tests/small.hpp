// Declares the launches of two small kernels that nvcc compiles for the simulator's tests.
#pragma once

#include <cuda_runtime_api.h>

void start_add_one(int* values, int count, cudaStream_t stream);
void start_reduce(const int* values, int* sums, int blocks, bool with_barrier, cudaStream_t stream);

/// The kernel of start_add_one, as cudaLaunchKernel takes it.
const void* add_one_function();
