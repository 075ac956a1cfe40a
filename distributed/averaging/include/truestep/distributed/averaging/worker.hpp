#pragma once

#include <span>
#include <vector>

#include <truestep/distributed/communicator.hpp>

namespace truestep::distributed::averaging {

/// One rank of local SGD with averaging (section 11).
class Worker {
  public:
    Worker(std::vector<float> parameters, float learning_rate, distributed::Communicator& communicator);

    /// Takes a local step on this rank; nothing travels.
    void step(std::span<const float> gradient);
    /// Ends a round; all ranks call it. Throws distributed::Aborted.
    void average();

    [[nodiscard]] const std::vector<float>& parameters() const { return x_; }

  private:
    std::vector<float> x_;
    float learning_rate_;
    distributed::Communicator& communicator_;
    std::vector<float> all_; ///< every rank's x, one after the other
};

} // namespace truestep::distributed::averaging
