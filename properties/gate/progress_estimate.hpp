// An estimate of the remaining time.
#pragma once

#include <algorithm>
#include <map>
#include <string>

namespace truestep::gate {

/// How long the rest of a run takes, by the pieces done so far.
class ProgressEstimate {
  public:
    /// Announces a search of that implementation.
    void expect(const std::string& of) {
        ++all_;
        ++kinds_[of].to_come;
    }

    void took(const std::string& of, double seconds) {
        ++done_;
        Kind& kind = kinds_[of];
        --kind.to_come;
        ++kind.done;
        kind.seconds += seconds;
        worked_ += seconds;
    }

    [[nodiscard]] int all() const { return all_; }
    [[nodiscard]] int done() const { return done_; }

    /// Implementations differ in speed by more than searches do. One that has not begun counts as the
    /// slowest, so that the run ends sooner than estimated rather than later.
    [[nodiscard]] double left(double elapsed) const {
        double slowest = 0.0;
        for (const auto& [name, kind] : kinds_)
            slowest = std::max(slowest, kind.mean());
        double work = 0.0;
        for (const auto& [name, kind] : kinds_)
            work += kind.to_come * (kind.done > 0 ? kind.mean() : slowest);
        const double at_a_time = elapsed > 0.0 ? std::max(1.0, worked_ / elapsed) : 1.0;
        return work / at_a_time;
    }

  private:
    struct Kind {
        int to_come = 0;
        int done = 0;
        double seconds = 0.0;
        [[nodiscard]] double mean() const { return done > 0 ? seconds / done : 0.0; }
    };

    std::map<std::string, Kind> kinds_;
    int all_ = 0;
    int done_ = 0;
    double worked_ = 0.0; ///< by all processes together
};

} // namespace truestep::gate
