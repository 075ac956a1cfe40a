// Colours and progress on a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <truestep/report/status.hpp>

namespace truestep::gate {

/// The status in colour on a terminal; plain elsewhere and if NO_COLOR is set.
[[nodiscard]] std::string coloured(report::Status status);

/// A line on standard error with the progress of something: only on a terminal, and only after a second.
class Progress {
  public:
    explicit Progress(std::string what);
    ~Progress();
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void show(std::int64_t done, std::int64_t all);
    /// Shows a text instead.
    void show(const std::string& text);
    /// Erases the line of any Progress; to be called before anything else is printed. Safe in a signal
    /// handler.
    static void clear();

  private:
    using Clock = std::chrono::steady_clock;

    std::string what_;
    bool terminal_;
    Clock::time_point next_;
};

} // namespace truestep::gate
