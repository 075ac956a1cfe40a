#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <scape/problem/problem.hpp>
#include <scape/trace/reader.hpp>
#include <scape/trace/writer.hpp>
#include <scape/verify/results.hpp>

namespace scape::verify {

/// What a trace says before its first step (section 9).
struct TraceHead {
    std::string source; ///< who made it, and how
    problem::Problem problem;
    std::vector<double> learning_rate; ///< one per step
    std::vector<double> density; ///< entry t-1 belongs to the mask used at step t; one more than steps
    std::vector<float> initial_parameters;

    [[nodiscard]] Index steps() const { return static_cast<Index>(learning_rate.size()); }
};

/// A trace of SCAPE or AdamS, read step by step. All errors are scape::Error, one line that begins with the
/// path.
class TraceReader : public trace::Reader {
  public:
    explicit TraceReader(const std::filesystem::path& path);

    [[nodiscard]] const TraceHead& head() const { return head_; }
    [[nodiscard]] std::vector<float> gradient(Index step, int rank) const {
        return input(gradient_kind, step, rank);
    }

  private:
    TraceHead head_;
};

/// One rank's own copy of what has to be the same on all ranks, as a trace holds it: masks in bits.
struct Replica {
    std::vector<std::uint8_t> mask;
    std::vector<std::uint8_t> next_mask;
    Vector<float> first_moment;
    Vector<float> parameters;

    [[nodiscard]] const std::vector<std::uint8_t>& mask_of(Result result) const {
        return result == Result::mask ? mask : next_mask;
    }
    [[nodiscard]] const Vector<float>& values(Result result) const {
        return result == Result::first_moment ? first_moment : parameters;
    }
};

/// Writes a trace step by step. finish() makes the file appear.
class TraceWriter {
  public:
    /// `intermediates`: also local, exchanged and reconstructed. One rank alone has no replicas.
    TraceWriter(const std::filesystem::path& path, TraceHead head, bool intermediates,
                trace::Replicas replicas = trace::Replicas::none);

    /// The steps in their order. A refused step has no intermediates: they are written as zeros. `own`:
    /// each rank's replica, or nothing where all ranks have what `results` says.
    void write_step(const PerRank<float>& gradients, const StepResults<float>& results,
                    const std::vector<Replica>& own = {});
    void finish() { file_.finish(); }

  private:
    TraceHead head_;
    trace::Writer file_;
};

/// The problem as the trace's metadata `config` holds it, and back. `what` begins the error's line.
[[nodiscard]] std::string config_text(const problem::Problem& problem, Index steps);
struct Config {
    problem::Problem problem;
    Index steps;
};
[[nodiscard]] Config parse_config(const std::string& text, const std::string& what);

/// What a trace of such a problem holds.
[[nodiscard]] trace::Schema schema(const problem::Problem& problem, Index steps);
[[nodiscard]] trace::Schema schema_of_config(const std::string& text, const std::string& what);

} // namespace scape::verify
