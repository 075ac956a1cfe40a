#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <truestep/distributed/communicator.hpp>
#include <truestep/distributed/mapl/passes.hpp>
#include <truestep/problem/problem.hpp>
#include <truestep/training/run.hpp>
#include <truestep/training/stage_boundary.hpp>

#include "compression.hpp"
#include "peers/peer.hpp"

namespace truestep::training {

/// The blocks behind which a model of so many is cut into stages as equal as possible.
[[nodiscard]] std::vector<std::size_t> cuts(std::size_t layers, std::size_t stages);
/// The settings on which both sides of a boundary agree.
[[nodiscard]] problem::mapl::Settings boundary_settings(const Shape& shape, const Compression& compression,
                                                        std::size_t boundary, std::uint64_t seed);
/// The anchors of both sides of all boundaries, which the model's optimizer trains as well:
/// sender's and receiver's of the first boundary, and so on. Empty without compression.
[[nodiscard]] std::vector<problem::Tensor> anchor_tensors(const Plan& plan,
                                                          const std::optional<Compression>& compression);

/// All boundaries between a rank's stages, in one thread: a pass runs as a whole, and bytes that
/// would travel are counted. The passes of distributed/mapl compute what its ends compute with
/// messages, to the same bits. Ranks are replicas (section 22.1): A follows the mean over them.
class Pipeline final : public StageBoundary<float> {
  public:
    /// The links have to outlive the pipeline.
    Pipeline(const Plan& plan, const std::optional<Compression>& compression, std::uint64_t seed,
             const peers::Links& links);

    /// Announces the next pass: its symbols and anchors. A backward pass also leaves the gradients
    /// of the anchors. Without `anchor_gradients`, the pass is forward only, and nothing is
    /// counted.
    void begin(std::span<const std::uint8_t> symbols, std::span<const float> anchors,
               std::span<float> anchor_gradients = {});
    void forward(std::size_t layer, float* values) override;
    void backward(std::size_t layer, float* values) override;
    /// Updates all A from the sums since the last step's end.
    void end_step(double learning_rate);

    [[nodiscard]] std::size_t boundaries() const { return behind_.size(); }
    [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(settings_.front().rank); }
    /// A, D x r.
    [[nodiscard]] std::span<const float> subspace(std::size_t boundary) const;
    /// Bytes between the stages of this rank so far, in both directions.
    [[nodiscard]] std::uint64_t sent() const { return sent_; }
    /// Adds its state to a checkpoint, and continues from one.
    void add_to(peers::State& state) const;
    void restore(const peers::State& state);

  private:
    struct Rows {
        distributed::mapl::Floats sender; ///< P of each side
        distributed::mapl::Floats receiver;
    };
    struct BoundaryValues {
        distributed::mapl::Floats q;
        distributed::mapl::Floats z;
    };
    [[nodiscard]] std::size_t boundary_behind(std::size_t layer) const;
    /// Where a side's table is among all anchors.
    [[nodiscard]] std::size_t table(std::size_t boundary, problem::mapl::Side side) const;
    [[nodiscard]] distributed::mapl::SideMatrices matrices(std::size_t boundary,
                                                           problem::mapl::Side side) const;
    [[nodiscard]] std::size_t values() const; ///< of one A
    void follow_spel(double rate);
    void follow_adams(double rate);

    std::optional<Compression> compression_;
    std::vector<std::size_t> behind_; ///< the block before each boundary
    std::vector<problem::mapl::Settings> settings_;
    std::size_t width_;
    std::vector<Rows> rows_;
    distributed::mapl::Floats a_; ///< of all boundaries, one after the other, as all that follows
    distributed::mapl::Floats m_;
    distributed::mapl::Floats senders_part_;
    distributed::mapl::Floats receivers_part_;
    std::unique_ptr<peers::Peer> adams_; ///< trains A if it is free
    distributed::Communicator& replicas_;
    std::vector<BoundaryValues> kept_;
    distributed::mapl::Floats dz_;
    distributed::mapl::Floats gradient_; ///< G, while dX takes its place
    std::vector<distributed::mapl::Id> ids_;
    std::span<const float> anchors_;
    std::span<float> anchor_gradients_;
    std::uint64_t sent_ = 0;
};

} // namespace truestep::training
