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

/// A problem on which the implementation and the reference part.
struct Mismatch {
    std::string what;
    std::string problem; ///< text(Tiny): it fails when run alone, too
    std::string batch;   ///< else: where in which batch, and what stood there
};

/// What the threads that go through a scope share.
class Tally {
  public:
    void add(std::uint64_t cases) { cases_ += cases; }
    [[nodiscard]] std::uint64_t cases() const { return cases_; }
    /// The first one ends the scope.
    void found(Mismatch mismatch);
    [[nodiscard]] bool over() const { return over_; }
    [[nodiscard]] const std::optional<Mismatch>& mismatch() const { return mismatch_; }

  private:
    std::atomic<std::uint64_t> cases_{0};
    std::atomic<bool> over_{false};
    std::mutex mutex_;
    std::optional<Mismatch> mismatch_;
};

/// One thread's own: what is put to the test, and what it is compared with.
struct Lab {
    std::shared_ptr<const properties::scape::Implementation> implementation;
    std::shared_ptr<const properties::scape::Implementation> reference;
    std::size_t variant = 0; ///< of the implementation's kernels

    [[nodiscard]] std::optional<Difference> judge(Scenario scenario) const {
        scenario.setup.variant = variant;
        return difference(reference->run(scenario), implementation->run(scenario));
    }
    /// Counts it, and if it fails tells of the smallest problem that still does.
    void judge_whole(const Tiny& problem, Tally& tally) const;
};
using MakeLab = std::function<Lab()>;

/// The problem with everything put to 0 that can be while it still fails.
[[nodiscard]] Tiny smallest(const Lab& lab, Tiny problem);

/// A segment with its two steps: all that can reach it where nothing is clipped.
struct Piece {
    int owner = 0;
    std::array<float, 3> parameters{0.5F, -2.0F, 1.0F};
    std::array<std::array<std::array<float, 3>, 3>, steps> gradients{}; ///< by step, rank, coordinate
};

/// Segments of one kind as those of one model, since they do not touch each other: one step of the real
/// thing takes thousands of problems.
class Batch {
  public:
    struct Shape {
        int segment = 1; ///< coordinates of each
        int workers = 1;
        Densities densities{1.0, 1.0, 1.0};
        properties::scape::Case settings{}; ///< betas, correction, decay
        bool turned = false;                ///< what a rank owns stands in the range of the one before it
    };

    Batch(Shape shape, const Lab& lab, Tally& tally);
    void add(const Piece& piece);
    /// All of one batch at the end.
    void flush();

  private:
    [[nodiscard]] Scenario scenario() const;
    [[nodiscard]] Mismatch mismatch(const Difference& found) const;

    Shape shape_;
    const Lab& lab_;
    Tally& tally_;
    std::size_t most_;
    std::size_t count_ = 0;
    std::vector<std::vector<Piece>> by_range_;
};

/// The task's share of a scope: each has to be independent of the others.
using Task = std::function<void(const Lab&, Tally&)>;
void run_tasks(const MakeLab& make, int threads, const std::vector<Task>& tasks, Tally& tally);

} // namespace truestep::properties::scape::scope
