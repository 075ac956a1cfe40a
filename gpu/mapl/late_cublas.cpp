// Loads cuBLAS's functions when one of them is first called. Linking the library would cost every
// program of ours a tenth of a second and 200 MB at its start.
#include <cublas_v2.h>
#include <dlfcn.h>

#include <string>

#include <truestep/problem/error.hpp>

namespace {

void* library() {
    static std::string why;
    static void* const opened = [] {
        for (const char* const name : {TRUESTEP_CUBLAS_NAME, TRUESTEP_CUBLAS_LIBRARY}) {
            if (void* const found = dlopen(name, RTLD_NOW | RTLD_LOCAL); found != nullptr)
                return found;
            const char* const said = dlerror();
            why += (why.empty() ? "" : "; ") + std::string(said != nullptr ? said : name);
        }
        return static_cast<void*>(nullptr);
    }();
    if (opened == nullptr)
        throw truestep::Error("cuda: cuBLAS cannot be opened (" + why +
                              "); set LD_LIBRARY_PATH to its folder");
    return opened;
}

template <class Function>
Function* function(const char* name) {
    void* const found = dlsym(library(), name);
    if (found == nullptr)
        throw truestep::Error("cuda: " TRUESTEP_CUBLAS_NAME " has no " + std::string(name));
    return reinterpret_cast<Function*>(found);
}

} // namespace

/// The function of that name, with these arguments.
#define TRUESTEP_LATE(name, ...)                                                                           \
    static auto* const late = function<decltype(name)>(#name);                                             \
    return late(__VA_ARGS__)

// NOLINTBEGIN(readability-identifier-naming): names are cuBLAS's
#pragma GCC visibility push(hidden) // the library's own calls are its own
extern "C" {

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
    TRUESTEP_LATE(cublasCreate_v2, handle);
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
    TRUESTEP_LATE(cublasSetStream_v2, handle, stream);
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
    TRUESTEP_LATE(cublasSetWorkspace_v2, handle, workspace, bytes);
}
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    TRUESTEP_LATE(cublasSetMathMode, handle, mode);
}
const char* cublasGetStatusString(cublasStatus_t status) {
    TRUESTEP_LATE(cublasGetStatusString, status);
}
cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int m, int n, int k, const float* alpha, const float* A, int lda,
                              const float* B, int ldb, const float* beta, float* C, int ldc) {
    TRUESTEP_LATE(cublasSgemm_v2, handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

} // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-identifier-naming)
