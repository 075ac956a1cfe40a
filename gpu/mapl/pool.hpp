#pragma once

#include <memory>
#include <vector>

#include <truestep/distributed/peers.hpp>
#include <truestep/gpu/block.hpp>

namespace truestep::gpu::mapl {

/// Vectors of a machine's memory, to be used again when no one holds them. Work that uses a
/// returned vector may still be on the stream; the next user's work comes after it on the same
/// stream.
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
