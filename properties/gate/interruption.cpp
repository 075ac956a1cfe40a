// Handles INT, TERM and HUP, so that a search ends early and still reports its results.
#include "interruption.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

#include "running_case.hpp"

namespace truestep::gate {

namespace {

using Handler = void (*)(int);

constexpr std::array interrupting{SIGINT, SIGTERM, SIGHUP};

/// `timeout` sends its signal twice, and a closed terminal sends two different ones. Within this time they
/// count as one.
constexpr std::int64_t one_wish_milliseconds = 200;
/// Time for a case to end, and for the result of a search to arrive.
constexpr std::int64_t patience_milliseconds = 2000;
/// Time for work in this process, which cannot be ended alone.
constexpr unsigned seconds_for_work_here = 10;

/// In shared memory, so that searches in other processes can end themselves.
struct SharedInterruption {
    std::atomic<int> signal;
    std::atomic<std::int64_t> when;
    pid_t process;
};

SharedInterruption* noted = nullptr;
Handler say_first = nullptr;
std::array<Handler, interrupting.size()> had_before{};

void end_at_once(int signal) {
    alarm(0);
    for (std::size_t i = 0; i < interrupting.size(); ++i)
        if (interrupting.at(i) == signal && had_before.at(i) != nullptr)
            return had_before.at(i)(signal);
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
}

void note(int signal) {
    const int kept = errno; // the interrupted code may need it
    std::int64_t never = 0;
    if (noted->when.compare_exchange_strong(never, now_in_milliseconds())) {
        noted->signal = signal;
        alarm(seconds_for_work_here);
        say_first(signal);
    } else if (now_in_milliseconds() - noted->when > one_wish_milliseconds) {
        end_at_once(signal);
    }
    errno = kept;
}

void give_up(int /*alarm*/) {
    end_at_once(noted->signal);
}

/// Not SIG_IGN, which programs would inherit.
void take_no_notice(int /*signal*/) {}

} // namespace

void note_interruptions(void (*first)(int signal)) {
    if (noted != nullptr)
        return;
    void* const memory = mmap(nullptr, sizeof(SharedInterruption), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc();
    noted = new (memory) SharedInterruption();
    noted->process = getpid();
    say_first = first;
    std::signal(SIGALRM, give_up);
    for (std::size_t i = 0; i < interrupting.size(); ++i) {
        const Handler had = std::signal(interrupting.at(i), note);
        if (had == SIG_IGN)
            std::signal(interrupting.at(i), SIG_IGN);
        else if (had != SIG_DFL)
            had_before.at(i) = had;
    }
}

int interruption() {
    return noted == nullptr ? 0 : noted->signal.load();
}

bool patience_is_over() {
    return interruption() != 0 && noted->process == getpid() &&
           now_in_milliseconds() - noted->when > patience_milliseconds;
}

void leave_interruptions_to_the_parent() {
    if (noted == nullptr)
        return;
    std::signal(SIGALRM, SIG_DFL);
    for (const int signal : interrupting)
        std::signal(signal, take_no_notice);
}

void work_has_ended() {
    alarm(0);
}

} // namespace truestep::gate
