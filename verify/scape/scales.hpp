#pragma once

#include <optional>
#include <string>

#include <truestep/verify/trace.hpp>
#include <truestep/verify/yardstick.hpp>

/// E of section 21, where a trace says it: the steps use it, and it is held against what they have led to.
namespace truestep::verify {

/// Of one step that was taken.
struct ScaleFound {
    int recorded = 0; ///< E that it was scaled by
    /// The greatest exponent that it had itself, of what is held: at REL any of these, or none.
    int least = reference::no_exponent;
    int most = reference::no_exponent;
};

template <class T>
[[nodiscard]] ScaleFound scale_found(int recorded, const PerRank<T>& c, const Coordinates& S) {
    const auto own = reference::exponent_on(S, c);
    if constexpr (requires { own.least; }) // a scalar that carries its bound
        return {recorded, own.least, own.most};
    else
        return {recorded, own, own};
}

/// Goes through the steps that were taken.
class ScaleJudge {
  public:
    explicit ScaleJudge(const TraceHead& head)
        : begins_(head.extent.begin == 0),
          holds_all_(head.problem.layout.size() == head.whole().layout.size()) {}

    /// What is wrong with E of the next one, or "".
    [[nodiscard]] std::string judge(const ScaleFound& found);

  private:
    bool begins_; ///< the next step is the first of the run
    bool holds_all_;
    std::optional<ScaleFound> before_;
};

} // namespace truestep::verify
