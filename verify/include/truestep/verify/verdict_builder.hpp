/// Builds the verdict on a trace of any system from that system's comparisons.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include <truestep/trace/reader.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// The facts about a trace that precede the first comparison.
struct TraceFacts {
    std::string problem; ///< what was trained and how: one line
    std::string state;   ///< what each step has to hold so that the next can begin there
    Words words = {};
};

/// Counts comparisons by result, and keeps the first divergence. A system adds its rows, then its
/// steps in order.
class VerdictBuilder {
  public:
    /// Throws truestep::Error if steps are to begin at a recorded state that the trace does not
    /// hold.
    VerdictBuilder(const trace::Reader& trace, const VerifyOptions& options, TraceFacts facts);

    [[nodiscard]] bool from_recorded() const { return verdict.from == ReferenceStart::recorded; }

    /// The first row is that of the steps' outcomes. `mapped` lets a page draw where the values
    /// differ.
    void add_row(std::string phase, std::string result, bool mapped = false);
    void begin_step(Index step) { step_ = step; }

    /// Adds the result for one vector of this step. Returns the divergence if it is the first one,
    /// so that the system can add to it.
    Divergence* add(std::string_view result, const Finding& finding);
    /// Adds a step that is wrong itself, whatever its values are: counted in the first row.
    void add_wrong(std::string phase, std::string result, int rank, std::string note);
    /// Keeps the divergence, if it is the first one.
    Divergence* diverge(Divergence divergence);
    /// Adds the finding to the result's map only.
    void draw(std::string_view result, const Finding& finding);

    [[nodiscard]] Status status() const;
    /// `unbounded_because` ends the sentence on values that were not compared.
    [[nodiscard]] TraceVerdict finish(const std::string& unbounded_because);

    TraceVerdict verdict; ///< incomplete; a system adds notes, curves and hints

  private:
    const trace::Reader& trace_;
    bool look_;
    Index step_ = 0;
};

/// Text such as "1 step", "3 steps", "2 batches".
[[nodiscard]] std::string count_of(std::integral auto count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : thing.ends_with("ch") ? "es" : "s");
}

} // namespace truestep::verify
