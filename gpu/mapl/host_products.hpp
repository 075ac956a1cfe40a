#pragma once

#include <utility>

#include <truestep/gpu/host_machine.hpp>
#include <truestep/mapl/products.hpp>

namespace truestep::mapl {

/// The products of the host's form: the host's, as work of the stream.
class HostProducts {
  public:
    explicit HostProducts(gpu::HostMachine machine) : machine_(std::move(machine)) {}

    void multiply(const Product& shape, const float* first, const float* second, float* to) {
        machine_.call([=] { mapl::multiply(shape, first, second, to); });
    }

  private:
    gpu::HostMachine machine_;
};

} // namespace truestep::mapl
