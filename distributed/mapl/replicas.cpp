// Averages a vector over the replicas of a MAPL stage, with the same bits on all of them.
#include <truestep/distributed/mapl/replicas.hpp>

#include <algorithm>

namespace truestep::distributed::mapl {

using distributed::Traffic;

void mean_over(distributed::Communicator& replicas, Floats& values) {
    const auto ranks = static_cast<std::size_t>(replicas.size());
    if (ranks == 1)
        return;
    const std::size_t each = (values.size() + ranks - 1) / ranks;
    std::vector<std::size_t> bytes;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        bytes.push_back(
            (std::min(values.size(), (rank + 1) * each) - std::min(values.size(), rank * each)) *
            sizeof(float));
    const std::size_t own_bytes = bytes[static_cast<std::size_t>(replicas.rank())];
    const std::size_t own = own_bytes / sizeof(float);
    Floats parts(own * ranks);
    replicas
        .start_all_to_all(Traffic::gradient, values.data(), bytes, parts.data(),
                          std::vector<std::size_t>(ranks, own_bytes))
        ->wait();
    for (std::size_t rank = 1; rank < ranks; ++rank)
        for (std::size_t i = 0; i < own; ++i)
            parts[i] += parts[rank * own + i];
    for (std::size_t i = 0; i < own; ++i)
        parts[i] /= static_cast<float>(ranks);
    replicas.start_all_gather(Traffic::gradient, parts.data(), values.data(), bytes)->wait();
}

} // namespace truestep::distributed::mapl
