#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include <truestep/distributed/element.hpp>
#include <truestep/distributed/mask.hpp>

#include "numbers.hpp"
#include "table.hpp"

// The passes of the host's kernels and of a device's blocks, on columns of inputs, and the oracle's result
// for one coordinate.

namespace truestep::properties::scape::floats {

using distributed::Mask;
using distributed::Scalars;
using distributed::host::Table;

/// A prime, so that values move through the lanes from batch to batch, and there is always a rest behind
/// whole words and registers.
constexpr Index batch_size = 16381;
constexpr int most_inputs = 7;
constexpr int most_outputs = 2;

/// Which coordinates the last and the current mask have.
enum class Masks : std::uint8_t { full, empty, mixed, sparse };

struct Batch {
    Scalars scalars;
    float factor = 1.0F; ///< of the clip
    int workers = 1;
    Masks masks = Masks::full;
    /// Column by column.
    std::vector<float> inputs = std::vector<float>(most_inputs * batch_size);

    [[nodiscard]] float* input(int column) { return inputs.data() + column * batch_size; }
    [[nodiscard]] const float* input(int column) const { return inputs.data() + column * batch_size; }
};

struct Outcome {
    std::array<std::vector<float>, most_outputs> outputs{std::vector<float>(batch_size),
                                                         std::vector<float>(batch_size)};
    bool finite = true; ///< the pass's own verdict on its parameters

    [[nodiscard]] float* output(int number) { return outputs[static_cast<std::size_t>(number)].data(); }
    [[nodiscard]] const float* output(int number) const {
        return outputs[static_cast<std::size_t>(number)].data();
    }
};

/// The masks of each kind, and the buffers of a pass. One per thread.
class ThreadBuffers {
  public:
    ThreadBuffers();
    ThreadBuffers(const ThreadBuffers&) = delete;
    ThreadBuffers& operator=(const ThreadBuffers&) = delete;
    ThreadBuffers(ThreadBuffers&&) = delete;
    ThreadBuffers& operator=(ThreadBuffers&&) = delete;
    ~ThreadBuffers();

    [[nodiscard]] const Mask& last(Masks kind) const;
    [[nodiscard]] const Mask& current(Masks kind) const;
    /// The column packed on the mask.
    const float* pack(const Mask& mask, const float* column);

    std::vector<float> payload = std::vector<float>(batch_size);
    std::vector<float> scratch = std::vector<float>(batch_size);
    struct Device;
    std::unique_ptr<Device> device;

  private:
    std::vector<Mask> masks_;
    std::vector<float> packed_ = std::vector<float>(batch_size);
};

struct Operation {
    std::string name;
    int inputs = 1;
    int outputs = 1;
    /// The pass does no arithmetic, so a NaN has to keep its bits, too.
    bool keeps_nan = false;
    void (*host)(const Table& table, ThreadBuffers& place, const Batch& batch, Outcome& outcome) = nullptr;
    /// Null if a device has no separate pass for it.
    void (*device)(ThreadBuffers& place, const Batch& batch, Outcome& outcome) = nullptr;
    /// Computes coordinate `index`: writes one value per output.
    void (*oracle)(const ThreadBuffers& place, const Batch& batch, Index index, float* outputs) = nullptr;
    Index oracle_values = batch_size; ///< coordinates that there are
};

[[nodiscard]] const Operation& local();
[[nodiscard]] const Operation& fold();
[[nodiscard]] const Operation& reconstruct();
[[nodiscard]] const Operation& clip();
[[nodiscard]] const Operation& direction(bool momentum);
[[nodiscard]] const Operation& update();
[[nodiscard]] const Operation& dense(bool momentum);
/// Everything between the exchange and the end of a step, as a device does it: from M, m, w to M and w.
[[nodiscard]] const Operation& end_of_step(bool momentum, bool clipping);
[[nodiscard]] const Operation& score();
/// 1 where a gradient is taken, 0 where it is refused.
[[nodiscard]] const Operation& acceptable();
/// 1 for numbers, 0 for NaNs and infinities.
[[nodiscard]] const Operation& finite();
/// The sums of squares of the norm's blocks: the doubles' upper and lower halves, of block b at b.
[[nodiscard]] const Operation& square_sums();

namespace on_device {
void local(ThreadBuffers& place, const Batch& batch, Outcome& outcome);
void fold(ThreadBuffers& place, const Batch& batch, Outcome& outcome);
void end_of_step(ThreadBuffers& place, const Batch& batch, Outcome& outcome, bool momentum, bool clipping);
void acceptable(ThreadBuffers& place, const Batch& batch, Outcome& outcome);
void square_sums(ThreadBuffers& place, const Batch& batch, Outcome& outcome);
} // namespace on_device

/// Puts sums where square_sums() has them.
void store_sums(const std::vector<double>& sums, Outcome& outcome);

} // namespace truestep::properties::scape::floats
