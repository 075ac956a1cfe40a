// One rank of SGD, Adam, AdamW and Muon under data parallelism: what a user calls.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/dense/backend.hpp>

namespace truestep::distributed::dense {

/// A parameter or a moment has turned non-finite, and all ranks stop.
class Halted : public std::runtime_error {
  public:
    explicit Halted(const std::string& text) : std::runtime_error(text) {}
};

struct Options {
    int threads = 1;
    bool sharded = true; ///< false: every rank holds all states and computes every update
};

/// One rank. A step takes the gradients of this rank's micro-batches. Owners get their parts of all
/// ranks' sums, update what they own, and send the new parameters to all.
class Worker {
  public:
    /// All ranks call it with the same problem and parameters. Throws truestep::Error on all ranks,
    /// which names the rank, if one differs in a setting or cannot begin.
    /// Without a backend the vectors are in the host's memory.
    Worker(Problem problem, std::span<const float> parameters, Communicator& communicator,
           Options options = {}, std::unique_ptr<Backend> backend = nullptr);
    /// Continues from a state of this ownership: each rank with its own of the same step, which is the same
    /// where each has all of it.
    Worker(Problem problem, State state, Communicator& communicator, Options options = {},
           std::unique_ptr<Backend> backend = nullptr);
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() = default;

    /// Adds the gradient of this rank's next micro-batch; nothing travels.
    void add(std::span<const float> gradient);
    /// Ends the step; all ranks call it, with a learning rate for each group. False if a gradient of
    /// any rank is refused: then no rank changes anything. Throws truestep::Error on all ranks, which
    /// names the rank, if one lacks a micro-batch or has other rates: then nothing has changed, and the
    /// step may be tried again. After Aborted or Halted there is no further step.
    bool step(const std::vector<double>& rates);
    /// The same, and adds the last micro-batch before. If it is the only one, its gradient is not copied:
    /// it must stay as it is until the call returns. A step that is tried again has it already.
    bool step(std::span<const float> last, const std::vector<double>& rates);

    /// All parameters, as the next gradient sees them. After Halted they may not be finite.
    [[nodiscard]] std::span<const float> parameters() const { return backend_->parameters(); }
    [[nodiscard]] const State& state() const {
        backend_->fetch(state_);
        return state_;
    }
    [[nodiscard]] const Ownership& ownership() const { return ownership_; }

  private:
    struct Agreed {
        State state;
    };
    Worker(Agreed agreed, Problem problem, Communicator& communicator, Options options,
           std::unique_ptr<Backend> backend);

    void must_be_able_to_go_on() const;
    void add(std::span<const float> gradient, bool lent);
    void halt_unless_finite();
    void make_mean();
    void clip();
    void gather();

    Problem problem_;
    Options options_;
    Communicator& communicator_;
    Ownership ownership_;
    GlobalNorm norm_;
    std::unique_ptr<Backend> backend_;
    mutable State state_; ///< its vectors may be older than the backend's
    Index added_ = 0;
    bool acceptable_ = true;
    Merges merges_;     ///< of the ranks' sums
    std::string ended_; ///< why there is no further step
};

} // namespace truestep::distributed::dense
