// Trains one rank by SGD, and averages its parameters over all ranks at the end of a round.
#include <truestep/distributed/averaging/worker.hpp>

#include <utility>

namespace truestep::distributed::averaging {

Worker::Worker(std::vector<float> parameters, float learning_rate, distributed::Communicator& communicator)
    : x_(std::move(parameters)), learning_rate_(learning_rate), communicator_(communicator),
      all_(x_.size() * static_cast<std::size_t>(communicator.size())) {}

void Worker::step(std::span<const float> gradient) {
    for (std::size_t i = 0; i < x_.size(); ++i)
        x_[i] -= learning_rate_ * gradient[i];
}

void Worker::average() {
    const auto ranks = static_cast<std::size_t>(communicator_.size());
    const std::vector<std::size_t> sizes(ranks, x_.size() * sizeof(float));
    communicator_.start_all_gather(distributed::Traffic::payload, x_.data(), all_.data(), sizes)->wait();
    // Every rank adds in the same order, whatever the order in which values arrived.
    for (std::size_t i = 0; i < x_.size(); ++i) {
        float sum = all_[i];
        for (std::size_t rank = 1; rank < ranks; ++rank)
            sum += all_[rank * x_.size() + i];
        x_[i] = sum / static_cast<float>(ranks);
    }
}

} // namespace truestep::distributed::averaging
