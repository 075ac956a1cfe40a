#pragma once

#include <memory>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gpu/cuda_stream.hpp>
#include <truestep/gpu/mapl/devices.hpp>

namespace truestep::gpu::mapl {

/// Products of matrices in a device's memory by cuBLAS, as work of the stream: in fp32 throughout,
/// and with a workspace that nothing else uses, so that the same shape gives the same bits again.
/// Needs additional memory on the device. Throws truestep::Error where the library is not found,
/// and std::runtime_error with its words.
class CublasProducts {
  public:
    explicit CublasProducts(const gpu::CudaStream& stream);

    void multiply(const Product& shape, const float* first, const float* second, float* to);

  private:
    struct State;
    std::shared_ptr<State> state_;
};

} // namespace truestep::gpu::mapl
