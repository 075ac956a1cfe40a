// The cuBLAS functions that matrix products in fp32 need, over the simulated devices: a plain
// product, as work of the handle's stream, under the library's documented rules.
#include <cublas_v2.h>

#include <algorithm>
#include <cstring>

#include <truestep/simulator/fault.hpp>

#include "device.hpp"

using namespace truestep::simulator;

struct cublasContext { // the name is the library's
    int device = 0;
    cudaStream_t stream = nullptr;
    std::uint8_t* workspace = nullptr; ///< null for the library's own
    std::size_t workspace_bytes = 0;
};

namespace {

constexpr std::uint64_t workspace_alignment = 256;

/// A matrix stored column by column, `leading` values apart.
struct Matrix {
    const float* begin = nullptr;
    bool transposed = false;
    std::int64_t leading = 0;
    std::int64_t rows = 0; ///< as stored, not transposed
    std::int64_t columns = 0;

    [[nodiscard]] std::uint64_t count() const {
        return rows == 0 || columns == 0 ? 0 : static_cast<std::uint64_t>((columns - 1) * leading + rows);
    }
    [[nodiscard]] std::int64_t at(std::int64_t row, std::int64_t column) const {
        return transposed ? row * leading + column : column * leading + row;
    }
    [[nodiscard]] bool meets(const Matrix& other) const {
        return count() > 0 && other.count() > 0 && begin < other.begin + other.count() &&
               other.begin < begin + count();
    }
};

/// c = beta c + alpha a b; c is m x n, the inner dimension k. Each sum adds from +0 in ascending
/// order, since the library's own order is unknown.
class Gemm final : public Meeting {
  public:
    Gemm(const cublasContext& handle, Matrix first, Matrix second, Matrix result, std::int64_t inner,
         float alpha, float beta)
        : device_(handle.device), workspace_(handle.workspace), workspace_bytes_(handle.workspace_bytes),
          a_(first), b_(second), c_(result), inner_(inner), alpha_(alpha), beta_(beta) {}

    [[nodiscard]] bool can_go_on() const override { return true; }
    [[nodiscard]] std::string waits_for() const override { return {}; }
    bool go_on(std::mt19937_64& /*random*/) override {
        use_workspace();
        const auto* const a = reinterpret_cast<const float*>(place(a_, false, "the first matrix"));
        const auto* const b = reinterpret_cast<const float*>(place(b_, false, "the second matrix"));
        // If beta is 0, the old result is not read.
        if (beta_ != 0.0F)
            static_cast<void>(place(c_, false, "the result, which is added to,"));
        auto* const c = reinterpret_cast<float*>(place(c_, true, "the result"));
        for (std::int64_t column = 0; column < c_.columns; ++column)
            for (std::int64_t row = 0; row < c_.rows; ++row) {
                float sum = 0.0F;
                for (std::int64_t i = 0; i < inner_; ++i)
                    sum += a[a_.at(row, i)] * b[b_.at(i, column)];
                float& to = c[c_.at(row, column)];
                to = beta_ == 0.0F ? alpha_ * sum : beta_ * to + alpha_ * sum;
            }
        return true;
    }

  private:
    /// Returns the matrix's bytes. Throws Fault if the matrix exceeds its allocation, or is read
    /// before it was written. Gaps between columns are not checked.
    [[nodiscard]] std::uint8_t* place(const Matrix& matrix, bool write, const char* what) const {
        if (matrix.count() == 0)
            return nullptr;
        Device& device = Device::get();
        const auto begin = reinterpret_cast<std::uint64_t>(matrix.begin);
        const Allocation* const allocation = device.memory().find(begin);
        const std::string it = std::string("cuBLAS: ") + what;
        if (device.addresses.pageable(matrix.begin) || allocation == nullptr)
            throw Fault(it + " is not device memory");
        if (allocation->device != Allocation::any_device && allocation->device != device_)
            throw Fault(it + " is memory of device " + std::to_string(allocation->device) +
                        ", and the handle is of device " + std::to_string(device_));
        if (!allocation->holds(begin, matrix.count() * sizeof(float)))
            throw Fault(it + " goes beyond an allocation");
        const std::uint64_t bytes = static_cast<std::uint64_t>(matrix.rows) * sizeof(float);
        for (std::int64_t column = 0; column < matrix.columns; ++column) {
            const auto* const at = matrix.begin + column * matrix.leading;
            static_cast<void>(device.addresses.bytes(device.memory(), at, bytes, write, it.c_str()));
            if (!write && allocation->written.kept() &&
                !allocation->written.all(reinterpret_cast<std::uint64_t>(at) - allocation->base, bytes))
                throw Fault("cuBLAS: uninitialized memory, in " + std::string(what));
        }
        return allocation->bytes(begin);
    }

    /// Writes nonsense into the workspace, which belongs to the library during the product.
    void use_workspace() const {
        constexpr std::size_t some = 1024;
        constexpr int junk = 0x5a;
        if (workspace_ == nullptr)
            return;
        const std::size_t bytes = std::min(some, workspace_bytes_);
        Device& device = Device::get();
        std::memset(
            device.addresses.bytes(device.memory(), workspace_, bytes, true, "cuBLAS: the workspace"), junk,
            bytes);
    }

    int device_;
    std::uint8_t* workspace_;
    std::size_t workspace_bytes_;
    Matrix a_;
    Matrix b_;
    Matrix c_;
    std::int64_t inner_;
    float alpha_;
    float beta_;
};

/// Calls work(device) with the device locked, if there is a handle and the device has not failed.
template <class Work>
cublasStatus_t with(cublasHandle_t handle, const Work& work) {
    if (handle == nullptr)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    return device.failed() != cudaSuccess ? CUBLAS_STATUS_EXECUTION_FAILED : work(device);
}

bool known(cublasOperation_t operation) {
    return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T;
}

} // namespace

// NOLINTBEGIN(readability-identifier-naming): names are cuBLAS's
extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    if (handle == nullptr)
        return CUBLAS_STATUS_INVALID_VALUE;
    *handle = nullptr;
    Device& device = Device::get();
    const std::lock_guard<std::recursive_mutex> lock(device.mutex);
    if (device.failed() != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasContext{.device = current_device()};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
    if (handle == nullptr)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    return with(handle, [&](Device& device) {
        if (device.stream(stream).device != handle->device)
            return CUBLAS_STATUS_INVALID_VALUE;
        handle->stream = stream;
        handle->workspace = nullptr; // the library's own again
        handle->workspace_bytes = 0;
        return CUBLAS_STATUS_SUCCESS;
    });
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
    return with(handle, [&](Device& device) {
        const auto at = reinterpret_cast<std::uint64_t>(workspace);
        const Allocation* const allocation = device.memory().find(at);
        if (at % workspace_alignment != 0 || allocation == nullptr ||
            !device.addresses.on_device(workspace) || !allocation->holds(at, bytes))
            return CUBLAS_STATUS_INVALID_VALUE;
        handle->workspace = static_cast<std::uint8_t*>(workspace);
        handle->workspace_bytes = bytes;
        return CUBLAS_STATUS_SUCCESS;
    });
}

/// All modes are the same here: fp32 throughout.
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    return with(handle, [&](Device&) {
        return mode == CUBLAS_DEFAULT_MATH || mode == CUBLAS_PEDANTIC_MATH ? CUBLAS_STATUS_SUCCESS
                                                                           : CUBLAS_STATUS_NOT_SUPPORTED;
    });
}

const char* cublasGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "the library was not initialized";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the function failed to launch on the GPU";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    default:
        return "unknown error";
    }
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int m, int n, int k, const float* alpha, const float* A, int lda,
                              const float* B, int ldb, const float* beta, float* C, int ldc) {
    return with(handle, [&](Device& device) {
        if (m < 0 || n < 0 || k < 0 || !known(transa) || !known(transb) || alpha == nullptr ||
            beta == nullptr)
            return CUBLAS_STATUS_INVALID_VALUE;
        const bool first_turned = transa == CUBLAS_OP_T;
        const bool second_turned = transb == CUBLAS_OP_T;
        const Matrix first{A, first_turned, lda, first_turned ? k : m, first_turned ? m : k};
        const Matrix second{B, second_turned, ldb, second_turned ? n : k, second_turned ? k : n};
        const Matrix result{C, false, ldc, m, n};
        for (const Matrix& matrix : {first, second, result})
            if (matrix.leading < std::max<std::int64_t>(1, matrix.rows))
                return CUBLAS_STATUS_INVALID_VALUE;
        if (m == 0 || n == 0)
            return CUBLAS_STATUS_SUCCESS;
        Stream& stream = device.stream(handle->stream);
        if (stream.capturing) {
            device.fail(cudaErrorLaunchFailure,
                        "cuBLAS: a product in a capture, which the simulator does not know");
            return CUBLAS_STATUS_EXECUTION_FAILED;
        }
        if (result.meets(first) || result.meets(second)) {
            device.fail(cudaErrorLaunchFailure, "cuBLAS: the result overlaps with what is multiplied");
            return CUBLAS_STATUS_EXECUTION_FAILED;
        }
        device.put(stream, std::make_shared<Gemm>(*handle, first, second, result, k, *alpha, *beta));
        return CUBLAS_STATUS_SUCCESS;
    });
}

} // extern "C"
// NOLINTEND(readability-identifier-naming)
