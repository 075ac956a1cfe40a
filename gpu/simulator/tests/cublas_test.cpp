// The simulated cuBLAS: what it computes, when, and which errors it finds.
#include <gmock/gmock.h>

#include <array>
#include <functional>
#include <numeric>
#include <vector>

#include <cublas_v2.h>

#include "device.hpp"

namespace truestep::simulator::tests {
namespace {

using testing::HasSubstr;
using Floats = std::vector<float>;

std::string failure() {
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    return device.why();
}

/// A handle on a stream, and memory.
class SimulatedCublas : public testing::Test {
  protected:
    void SetUp() override {
        ASSERT_EQ(cudaStreamCreate(&stream_), cudaSuccess);
        ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
        ASSERT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
    }
    void TearDown() override {
        for (void* const memory : all_)
            static_cast<void>(cudaFree(memory));
        EXPECT_EQ(cublasDestroy(handle_), CUBLAS_STATUS_SUCCESS);
        static_cast<void>(cudaStreamDestroy(stream_)); // the last stream: this clears the failure
    }

    float* memory(std::size_t size) {
        void* made = nullptr;
        EXPECT_EQ(cudaMalloc(&made, size * sizeof(float)), cudaSuccess);
        all_.push_back(made);
        return static_cast<float*>(made);
    }
    float* memory(const Floats& values) {
        float* const to = memory(values.size());
        EXPECT_EQ(
            cudaMemcpyAsync(to, values.data(), values.size() * sizeof(float), cudaMemcpyDefault, stream_),
            cudaSuccess);
        return to;
    }
    Floats read(const float* from, std::size_t size) {
        Floats values(size);
        EXPECT_EQ(cudaMemcpyAsync(values.data(), from, size * sizeof(float), cudaMemcpyDefault, stream_),
                  cudaSuccess);
        return values;
    }
    cudaError_t settled() { return cudaStreamSynchronize(stream_); }

    cudaStream_t stream_ = nullptr;
    cublasHandle_t handle_ = nullptr;
    std::vector<void*> all_;
};

constexpr int m = 3;
constexpr int n = 2;
constexpr int k = 4;

/// A matrix column by column, with a gap behind each: value(row, column) of the matrix, or of its
/// transpose.
Floats columns(bool turned, int rows, int count, int gap, const std::function<float(int, int)>& value) {
    const int stand = turned ? count : rows;
    const int side_by_side = turned ? rows : count;
    Floats all(static_cast<std::size_t>((stand + gap) * side_by_side), -77.0F);
    for (int row = 0; row < rows; ++row)
        for (int column = 0; column < count; ++column)
            all[static_cast<std::size_t>(turned ? row * (stand + gap) + column
                                                : column * (stand + gap) + row)] = value(row, column);
    return all;
}

float of_first(int row, int column) {
    return static_cast<float>(1 + row + 10 * column);
}
float of_second(int row, int column) {
    return static_cast<float>(2 - row + 3 * column);
}

TEST_F(SimulatedCublas, ProductsAreThoseOfColumnsWithGaps) {
    for (const bool first_turned : {false, true})
        for (const bool second_turned : {false, true})
            for (const float beta : {0.0F, 1.0F, -2.0F}) {
                const Floats a = columns(first_turned, m, k, 2, of_first);
                const Floats b = columns(second_turned, k, n, 1, of_second);
                const Floats before = columns(false, m, n, 3, [](int row, int column) {
                    return static_cast<float>(100 * row + column);
                });
                float* const to = memory(before);
                const float alpha = 0.5F;
                EXPECT_EQ(cublasSgemm(handle_, first_turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      second_turned ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &alpha, memory(a),
                                      (first_turned ? k : m) + 2, memory(b), (second_turned ? n : k) + 1,
                                      &beta, to, m + 3),
                          CUBLAS_STATUS_SUCCESS);
                const Floats expected = columns(false, m, n, 3, [&](int row, int column) {
                    float sum = 0.0F;
                    for (int i = 0; i < k; ++i)
                        sum += of_first(row, i) * of_second(i, column);
                    return beta * static_cast<float>(100 * row + column) + alpha * sum;
                });
                EXPECT_EQ(read(to, before.size()), expected) << first_turned << second_turned << beta;
            }
    EXPECT_EQ(settled(), cudaSuccess);
}

TEST_F(SimulatedCublas, AProductIsWorkOfItsStreamAndReadsNoResultThatItDoesNotAddTo) {
    const float one = 1.0F;
    const float zero = 0.0F;
    int late = 0;
    for (int round = 0; round < 40; ++round) {
        float* const a = memory(Floats{2.0F});
        float* const to = memory(1); // not yet written
        EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &zero, to, 1),
                  CUBLAS_STATUS_SUCCESS);
        {
            Device& device = Device::get();
            const std::lock_guard<std::recursive_mutex> lock(device.mutex);
            late += device.stream(stream_).queue.empty() ? 0 : 1;
        }
        EXPECT_EQ(read(to, 1), Floats{4.0F});
    }
    EXPECT_GT(late, 20) << "the work is done at the call";
    EXPECT_EQ(settled(), cudaSuccess);
}

TEST_F(SimulatedCublas, WhatDoesNotFitIsRefused) {
    const float one = 1.0F;
    float* const a = memory(Floats(64, 1.0F));
    float* const to = memory(Floats(64, 1.0F));
    const auto product = [&](int rows, int inner, int lda, int ldb, int ldc) {
        return cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, rows, 2, inner, &one, a, lda, a, ldb, &one,
                           to, ldc);
    };
    EXPECT_EQ(product(3, 4, 3, 4, 3), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(product(3, 4, 2, 4, 3), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(product(3, 4, 3, 3, 3), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(product(3, 4, 3, 4, 2), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(product(-1, 4, 3, 4, 3), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(product(3, 0, 3, 0, 3), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &one, to, 1),
              CUBLAS_STATUS_NOT_INITIALIZED);
    EXPECT_EQ(cublasSetMathMode(handle_, CUBLAS_PEDANTIC_MATH), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetMathMode(handle_, CUBLAS_TF32_TENSOR_OP_MATH), CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_STREQ(cublasGetStatusString(CUBLAS_STATUS_SUCCESS), "success");
    EXPECT_EQ(settled(), cudaSuccess);
}

TEST_F(SimulatedCublas, AWorkspaceIsTheDevicesAndAnotherStreamTakesItAway) {
    float* const room = memory(Floats(512, 3.0F));
    float* const a = memory(Floats{2.0F});
    float* const to = memory(Floats{0.0F});
    std::array<float, 256> of_host{};
    const float one = 1.0F;
    EXPECT_EQ(cublasSetWorkspace(handle_, of_host.data(), sizeof of_host), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSetWorkspace(handle_, room + 1, 1024), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSetWorkspace(handle_, room, 4096), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(cublasSetWorkspace(handle_, room, 2048), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSetStream(handle_, stream_), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &one, to, 1),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(read(room, 512), Floats(512, 3.0F));
    EXPECT_EQ(cublasSetWorkspace(handle_, room, 2048), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, 1, a, 1, &one, to, 1),
              CUBLAS_STATUS_SUCCESS);
    EXPECT_NE(read(room, 512), Floats(512, 3.0F)) << "it is the library's to write to";
    EXPECT_EQ(read(to, 1), Floats{8.0F});
}

TEST_F(SimulatedCublas, WhatNobodyMayTouchIsAFault) {
    const float one = 1.0F;
    const auto fails = [&](const float* a, float* to, int inner) {
        static_cast<void>(
            cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, inner, &one, a, 1, a, inner, &one, to, 1));
        EXPECT_NE(settled(), cudaSuccess);
        const std::string why = failure();
        TearDown();
        all_.clear();
        SetUp();
        return why;
    };
    Floats of_host(4);
    EXPECT_THAT(fails(of_host.data(), memory(Floats{0.0F}), 4),
                HasSubstr("the first matrix is not device memory"));
    EXPECT_THAT(fails(memory(4), memory(Floats{0.0F}), 4),
                HasSubstr("uninitialized memory, in the first matrix"));
    EXPECT_THAT(fails(memory(Floats(4)), memory(1), 4),
                HasSubstr("uninitialized memory, in the result, which is added to"));
    EXPECT_THAT(fails(memory(Floats(4)), memory(Floats{0.0F}), 5), HasSubstr("goes beyond an allocation"));
    float* const both = memory(Floats(4));
    EXPECT_THAT(fails(both, both + 3, 4), HasSubstr("overlaps with what is multiplied"));
    EXPECT_EQ(settled(), cudaSuccess);
}

} // namespace
} // namespace truestep::simulator::tests
