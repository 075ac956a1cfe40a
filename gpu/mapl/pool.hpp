#pragma once

#include <memory>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu::mapl {

/// Vectors of a machine's memory that come back when nobody has them any more. What has let one go may
/// still be on the stream: so is whoever gets it next.
template <class Machine, class T>
class Pool {
  public:
    using Vector = typename Machine::template Vector<T>;
    using Shared = std::shared_ptr<Vector>;

    [[nodiscard]] Shared take(Machine& machine, std::size_t size) {
        const auto wanted = static_cast<problem::Index>(size);
        Shared* free = nullptr;
        for (Shared& vector : all_)
            if (distributed::is_let_go(vector)) {
                free = &vector;
                if (vector->size() == wanted)
                    break;
            }
        if (free == nullptr)
            free = &all_.emplace_back(std::make_shared<Vector>());
        machine.resize(**free, wanted);
        return *free;
    }

  private:
    std::vector<Shared> all_;
};

} // namespace truestep::gpu::mapl
