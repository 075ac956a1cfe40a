// Runs tiny problems on an implementation and on the reference.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <truestep/properties/scape/implementations.hpp>

#include "tiny.hpp"

namespace truestep::properties::scape::scope {

/// A problem on which the implementation and the reference differ.
struct Mismatch {
    std::string what;
    std::string problem; ///< text(Tiny) if it fails on its own, too
    std::string batch;   ///< else the place in the batch, and what was there
};

/// Shared by the threads that go through a scope.
class Tally {
  public:
    void add(std::uint64_t cases) { cases_ += cases; }
    [[nodiscard]] std::uint64_t cases() const { return cases_; }
    /// The first mismatch ends the scope.
    void found(Mismatch mismatch);
    [[nodiscard]] bool over() const { return over_; }
    [[nodiscard]] const std::optional<Mismatch>& mismatch() const { return mismatch_; }

  private:
    std::atomic<std::uint64_t> cases_{0};
    std::atomic<bool> over_{false};
    std::mutex mutex_;
    std::optional<Mismatch> mismatch_;
};

/// One thread's implementation and reference.
struct SmallScopeHarness {
    std::shared_ptr<const properties::scape::Implementation> implementation;
    std::shared_ptr<const properties::scape::Implementation> reference;
    std::size_t variant = 0; ///< of the implementation's kernels

    [[nodiscard]] std::optional<Difference> judge(Scenario scenario) const {
        scenario.setup.variant = variant;
        return difference(reference->run(scenario), implementation->run(scenario));
    }
    /// Counts the problem, and if it fails reports the smallest one that still does.
    void judge_whole(const TinyProblem& problem, Tally& tally) const;
};
using MakeHarness = std::function<SmallScopeHarness()>;

/// The problem with every value at 0 that can be 0 while it still fails.
[[nodiscard]] TinyProblem smallest(const SmallScopeHarness& lab, TinyProblem problem);

/// A segment with its two steps: without clipping nothing else can affect it.
struct Piece {
    int owner = 0;
    std::array<float, 3> parameters{0.5F, -2.0F, 1.0F};
    std::array<std::array<std::array<float, 3>, 3>, steps> gradients{}; ///< by step, rank, coordinate
};

/// Many segments of one kind in one model, since they do not affect each other: one step of the
/// implementation takes thousands of problems.
class Batch {
  public:
    struct Shape {
        int segment = 1; ///< coordinates of each
        int workers = 1;
        Densities densities{1.0, 1.0, 1.0};
        properties::scape::Case settings{}; ///< betas, correction, decay
        bool turned = false;                ///< a rank's segments are in the range of the one before it
    };

    Batch(Shape shape, const SmallScopeHarness& lab, Tally& tally);
    void add(const Piece& piece);
    /// Runs what is left at the end.
    void flush();

  private:
    [[nodiscard]] Scenario scenario() const;
    [[nodiscard]] Mismatch mismatch(const Difference& found) const;

    Shape shape_;
    const SmallScopeHarness& lab_;
    Tally& tally_;
    std::size_t most_;
    std::size_t count_ = 0;
    std::vector<std::vector<Piece>> by_range_;
};

/// A share of a scope, independent of the others.
using Task = std::function<void(const SmallScopeHarness&, Tally&)>;
void run_tasks(const MakeHarness& make, int threads, const std::vector<Task>& tasks, Tally& tally);

} // namespace truestep::properties::scape::scope
