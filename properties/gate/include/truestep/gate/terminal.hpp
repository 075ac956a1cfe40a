#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <truestep/report/status.hpp>

namespace truestep::gate {

/// The status in colour on a terminal, plain elsewhere and where NO_COLOR is set.
[[nodiscard]] std::string coloured(report::Status status);

/// A line on standard error that says how far something is: only on a terminal, only after a second.
class Progress {
  public:
    explicit Progress(std::string what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(std::int64_t done, std::int64_t all);
    /// The same with a text of one's own.
    void show(const std::string& text);
    /// Erases the line, whichever of these shows it: to be called before anything else is printed. A signal
    /// handler may.
    static void clear();

  private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    bool terminal_;
    Clock::time_point next_;
};

} // namespace truestep::gate
