/// Makes the verdict on a trace of any system out of what that system has compared.
#pragma once

#include <concepts>
#include <optional>
#include <string>
#include <string_view>

#include <truestep/trace/reader.hpp>
#include <truestep/verify/replicas.hpp>
#include <truestep/verify/verdict.hpp>

namespace truestep::verify {

/// What a system says of its trace before the first step is compared.
struct TraceFacts {
    std::string problem; ///< what was trained, how: one line
    std::string state;   ///< what each step has to hold so that the next can begin there
    Words words = {};
};

/// Counts what was compared by result, and keeps the first divergence. A system adds its rows, then its
/// steps in their order.
class VerdictBuilder {
  public:
    /// Throws truestep::Error where steps are to begin at a recorded state, and the trace does not hold it.
    VerdictBuilder(const trace::Reader& trace, const VerifyOptions& options, TraceFacts facts);

    [[nodiscard]] bool from_recorded() const { return verdict.from == From::recorded; }

    /// The first row is that of the steps' outcomes. `mapped`: a page draws where its values differ.
    void add_row(std::string phase, std::string result, bool mapped = false);
    void begin_step(Index step) { step_ = step; }

    /// What came of one vector of this step. Returns the divergence if it is the first one, so that the
    /// system can say more of it.
    Divergence* add(std::string_view result, const Finding& finding);
    /// The step itself is wrong, whatever its values are: counted in the first row.
    void add_wrong(std::string phase, std::string result, int rank, std::string note);
    /// Keeps it, if it is the first one.
    Divergence* diverge(Divergence divergence);
    /// On the result's map alone.
    void draw(std::string_view result, const Finding& finding);

    [[nodiscard]] Status status() const;
    /// `unbounded_because` ends the sentence on values that were not compared.
    [[nodiscard]] TraceVerdict finish(const std::string& unbounded_because);

    TraceVerdict verdict; ///< as far as it is made; a system adds notes, curves and hints

  private:
    const trace::Reader& trace_;
    bool look_;
    Index step_ = 0;
};

/// "1 step", "3 steps".
[[nodiscard]] std::string count_of(std::integral auto count, const std::string& thing) {
    return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

} // namespace truestep::verify
