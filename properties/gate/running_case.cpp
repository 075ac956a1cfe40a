#include "running_case.hpp"

#include <cerrno> // program_invocation_short_name
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <truestep/gate/processes.hpp>
#include <truestep/gate/terminal.hpp>
#include <truestep/problem/timeline.hpp>

#include "interruption.hpp"
#include "program_process.hpp"
#include "scratch.hpp"

// What processes are doing, and what they print if they are ended.

namespace truestep::gate {

std::array<RunningCase, most_processes + 1>& all_running() {
    static auto* const all = [] {
        void* const memory = mmap(nullptr, sizeof(std::array<RunningCase, most_processes + 1>),
                                  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            throw std::bad_alloc();
        return new (memory) std::array<RunningCase, most_processes + 1>();
    }();
    return *all;
}

RunningCase*& mine() {
    static RunningCase* own = all_running().data();
    return own;
}

void begin(RunningCase& running) {
    running.command[0] = '\0';
    running.line[0] = '\0';
    running.since = now_in_milliseconds();
}

namespace {

/// Ends the children, which would write on into a folder that is being removed.
void kill_children() {
    for (RunningCase& running : all_running())
        if (const pid_t child = running.process.load(); child > 0) {
            kill(child, SIGKILL);
            while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
            }
        }
}

void say(const char* text) {
    if (write(STDERR_FILENO, text, std::strlen(text)) < 0)
        return;
}

void say_what_was_running(const char* what) {
    Progress::clear();
    say("\n");
    say(program_invocation_short_name);
    say(what);
    if (mine()->where[0] != '\0') {
        say(": ");
        say(mine()->where.data());
        say(",");
    }
    const char* before = " while running\n";
    for (const RunningCase& running : all_running())
        if (running.command[0] != '\0') {
            say(before);
            say("$ ");
            say(running.command.data());
            before = "\n";
        }
    say("\n");
}

void say_of_first(int /*signal*/) {
    say_what_was_running(": interrupted");
    say("results follow when the running case ends; a second signal ends at once\n");
}

/// Ends the process by the signal, after cleaning up.
void end_by(int signal) {
    kill_programs();
    kill_children();
    clear_scratch_at_once();
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
}

/// In the thread that crashed: its innermost span is where it was.
void note_where() {
    if (const problem::Span* span = problem::Span::innermost(); span != nullptr) {
        auto& where = mine()->where;
        std::snprintf(where.data(), where.size(), "rank %d in its phase %.*s", span->rank(),
                      static_cast<int>(span->name().size()), span->name().data());
    }
}

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::array interruptions{SIGINT, SIGTERM, SIGHUP};

void tell_of_crash(int signal) {
    note_where();
    say_what_was_running(": the implementation crashed");
    end_by(signal);
}

void tell_of_interruption(int signal) {
    say_what_was_running(": interrupted");
    end_by(signal);
}

void leave_to_the_parent(int signal) {
    note_where();
    std::signal(signal, SIG_DFL);
    static_cast<void>(std::raise(signal));
}

template <class Signals>
void handle(const Signals& signals, void (*by)(int)) {
    for (const int signal : signals)
        std::signal(signal, by);
}

/// nohup ignores one of them, and so it stays.
template <class Signals>
void handle_unless_ignored(const Signals& signals, void (*by)(int)) {
    for (const int signal : signals)
        if (std::signal(signal, SIG_IGN) != SIG_IGN)
            std::signal(signal, by);
}

} // namespace

void leave_crashes_to_the_parent() {
    handle(interruptions, SIG_DFL);
    handle(crashes, leave_to_the_parent);
}

void now_running(const std::string& command, const std::string& line) {
    RunningCase& running = *mine();
    std::snprintf(running.command.data(), running.command.size(), "%s", command.c_str());
    std::snprintf(running.line.data(), running.line.size(), "%s", line.c_str());
    running.since = now_in_milliseconds();
}

std::string what_is_running() {
    const RunningCase& running = *mine();
    return running.command[0] == '\0' ? std::string()
                                      : std::string(", while running: ") + running.command.data();
}

void tell_of_crashes() {
    static_cast<void>(mine()); // made now, not by a signal handler
    handle_unless_ignored(crashes, tell_of_crash);
    handle_unless_ignored(interruptions, tell_of_interruption);
}

void tell_what_was_done() {
    note_interruptions(say_of_first);
}

void end_if_interrupted() {
    work_has_ended();
    if (const int signal = interruption(); signal != 0) {
        std::fflush(nullptr);
        end_by(signal);
    }
}

void no_more_to_tell() {
    mine()->command[0] = '\0';
    handle(crashes, SIG_DFL);
    handle(interruptions, SIG_DFL);
}

} // namespace truestep::gate
