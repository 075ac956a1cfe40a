#pragma once

#include <utility>

#include <truestep/distributed/mapl/products.hpp>
#include <truestep/gpu/host_machine.hpp>
#include <truestep/gpu/mapl/devices.hpp>

namespace truestep::gpu::mapl {

/// The products of the host's form: distributed/'s functions, run as work of the stream.
class HostProducts {
  public:
    explicit HostProducts(gpu::HostMachine machine) : machine_(std::move(machine)) {}

    void multiply(const Product& shape, const float* first, const float* second, float* to) {
        machine_.call([=] { distributed::mapl::multiply(shape, first, second, to); });
    }

  private:
    gpu::HostMachine machine_;
};

} // namespace truestep::gpu::mapl
