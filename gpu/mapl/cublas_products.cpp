// Multiplies matrices with cuBLAS in fp32, as work of a stream with a workspace of its own.
#include <truestep/gpu/mapl/cublas_products.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <cublas_v2.h>

#include <truestep/gpu/availability.hpp>
#include <truestep/gpu/cuda_machine.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gpu::mapl {

namespace {

void check_cublas(cublasStatus_t status, const char* what) {
    if (status != CUBLAS_STATUS_SUCCESS)
        throw std::runtime_error(std::string("cuBLAS: ") + what + ": " + cublasGetStatusString(status));
}

int count(std::size_t size) {
    if (size > static_cast<std::size_t>(std::numeric_limits<int>::max()))
        throw Error("a matrix has " + std::to_string(size) +
                    " rows or columns; cuBLAS takes at most 2^31 - 1, so divide the micro-batch");
    return static_cast<int>(size);
}

/// The stride between rows of a matrix of `rows` x `columns`, or of its transpose.
int stride(bool transposed, std::size_t rows, std::size_t columns) {
    return std::max(1, count(transposed ? rows : columns));
}

cublasOperation_t operation(bool transposed) {
    return transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

/// Handles that no stream uses now, by device. They are lent and never destroyed: to destroy one waits for
/// the whole device, and that breaks the graph that another rank of this process may be capturing.
class Handles {
  public:
    cublasHandle_t lend(int device) {
        const std::scoped_lock guard(lock_);
        std::vector<cublasHandle_t>& idle = idle_[device];
        cublasHandle_t handle = nullptr;
        if (idle.empty()) {
            check_cublas(cublasCreate(&handle), "beginning");
        } else {
            handle = idle.back();
            idle.pop_back();
        }
        return handle;
    }
    void take_back(int device, cublasHandle_t handle) {
        const std::scoped_lock guard(lock_);
        idle_[device].push_back(handle);
    }

  private:
    std::mutex lock_;
    std::map<int, std::vector<cublasHandle_t>> idle_;
};

Handles& handles() {
    static auto* const all = new Handles; // NOLINT: outlives every stream
    return *all;
}

struct TakeBack {
    void operator()(cublasHandle_t handle) const { handles().take_back(device, handle); }
    int device = 0;
};

/// The size that the library recommends for the largest devices.
constexpr std::size_t workspace_bytes = std::size_t{32} << 20U;

} // namespace

struct CublasProducts::State {
    explicit State(const gpu::CudaStream& of) : stream(of) {
        // The library allocates memory, so no graph may be open.
        auto* const at_once = stream.state().at_once();
        handle = handles().lend(stream.state().device);
        kept = {handle, TakeBack{stream.state().device}};
        workspace.reserve(workspace_bytes);
        check_cublas(cublasSetStream(handle, at_once), "choosing the stream");
        // After setting the stream, which resets the workspace.
        check_cublas(cublasSetWorkspace(handle, workspace.data(), workspace_bytes), "giving it room");
        check_cublas(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH), "asking for fp32 all through");
    }
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        // Running work uses the workspace. An error has been reported before.
        static_cast<void>(cudaStreamSynchronize(stream.state().stream));
    }

    gpu::CudaDeviceStream stream;
    gpu::DeviceMemory workspace;
    cublasHandle_t handle = nullptr;
    std::unique_ptr<cublasContext, TakeBack>
        kept; ///< goes back before its workspace goes, and where a constructor fails
};

std::string products_unavailable() {
    if (gpu::availability().simulated)
        return {};
    try {
        static_cast<void>(cublasGetStatusString(CUBLAS_STATUS_SUCCESS)); // the first call opens the library
        return {};
    } catch (const Error& error) {
        return error.what();
    }
}

CublasProducts::CublasProducts(const gpu::CudaStream& stream) : state_(std::make_shared<State>(stream)) {}

void CublasProducts::multiply(const Product& shape, const float* first, const float* second, float* to) {
    if (shape.rows == 0 || shape.columns == 0)
        return;
    // The library stores columns, we store rows. It sees our matrices transposed, so it multiplies
    // the transposes in the other order.
    const float keep = shape.keep ? 1.0F : 0.0F;
    static_cast<void>(state_->stream.state().at_once()); // launches that a graph has collected come first
    check_cublas(cublasSgemm(state_->handle, operation(shape.second_transposed),
                             operation(shape.first_transposed), count(shape.columns), count(shape.rows),
                             count(shape.inner), &shape.factor, second,
                             stride(shape.second_transposed, shape.inner, shape.columns), first,
                             stride(shape.first_transposed, shape.rows, shape.inner), &keep, to,
                             count(shape.columns)),
                 "multiplying");
}

} // namespace truestep::gpu::mapl
