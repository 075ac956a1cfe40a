// Shows a line of progress on a terminal, and colours statuses there.
#include <truestep/gate/terminal.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include <unistd.h>

namespace truestep::gate {

namespace {

std::atomic<bool> shown{false}; ///< whether the terminal shows a line

} // namespace

std::string coloured(report::Status status) {
    std::string text = name(status);
    const char* no_colour = std::getenv("NO_COLOR");
    if (isatty(STDOUT_FILENO) == 0 || (no_colour != nullptr && *no_colour != '\0'))
        return text;
    const char* colour = status == report::Status::passed   ? "\033[32m"
                         : status == report::Status::failed ? "\033[31m"
                                                            : "\033[33m";
    return colour + text + "\033[0m";
}

Progress::Progress(std::string what)
    : what_(std::move(what)), terminal_(isatty(STDERR_FILENO) != 0),
      next_(Clock::now() + std::chrono::seconds(1)) {}

Progress::~Progress() {
    clear();
}

void Progress::clear() {
    constexpr std::string_view erase = "\r\033[K";
    if (shown.exchange(false) && write(STDERR_FILENO, erase.data(), erase.size()) < 0)
        return; // progress is not worth a failure
}

void Progress::show(std::int64_t done, std::int64_t all) {
    show("step " + std::to_string(done) + " of " + std::to_string(all));
}

void Progress::show(const std::string& text) {
    if (!terminal_ || Clock::now() < next_)
        return;
    next_ = Clock::now() + std::chrono::milliseconds(200);
    shown = true;
    std::fprintf(stderr, "\r\033[K%s: %s", what_.c_str(), text.c_str());
    std::fflush(stderr);
}

} // namespace truestep::gate
