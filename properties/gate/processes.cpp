// Runs pieces of work in child processes, several at a time, and ends those that take too long.
#include <truestep/gate/processes.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/problem/timeline.hpp>

#include "interruption.hpp"
#include "running_case.hpp"
#include "scratch.hpp"

// Clang's run time has it where the build counts what is reached (ci/reached, ci/coverage).
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): Clang's name
extern "C" __attribute__((weak)) int __llvm_profile_write_file();

namespace truestep::gate {

namespace {

using nlohmann::ordered_json;

/// A child process at work. Its process ends when this object does.
class Child {
  public:
    /// `quiet`: what it writes to stderr is lost.
    Child(const std::function<ordered_json()>& work, RunningCase& running, bool quiet = false)
        : running_(running) {
        std::array<int, 2> ends{};
        if (pipe(ends.data()) != 0)
            throw std::runtime_error(std::string("no pipe to a process: ") + std::strerror(errno));
        std::fflush(nullptr); // or both processes would write it
        const pid_t parent = getpid();
        // A signal that comes to both is the parent's to note, so it is blocked until the child has left it
        // to the parent.
        sigset_t held;
        sigset_t before;
        sigemptyset(&held);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGALRM})
            sigaddset(&held, signal);
        sigprocmask(SIG_BLOCK, &held, &before);
        process_ = fork();
        if (process_ != 0)
            sigprocmask(SIG_SETMASK, &before, nullptr);
        if (process_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(EXIT_FAILURE);
            leave_crashes_to_the_parent();
            leave_interruptions_to_the_parent();
            sigprocmask(SIG_SETMASK, &before, nullptr);
            mine() = &running_;
            close(ends[0]);
            if (const int nowhere = quiet ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1; nowhere >= 0)
                dup2(nowhere, STDERR_FILENO);
            answer(work, ends[1]);
        }
        if (&running_ != mine()) // in its own entry the parent sets it
            running_.process = std::max<pid_t>(process_, 0);
        close(ends[1]);
        answers_ = ends[0];
        if (process_ < 0) {
            close(answers_);
            throw std::runtime_error(std::string("no process could be started: ") + std::strerror(errno));
        }
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;
    ~Child() {
        if (process_ > 0) {
            kill(process_, SIGKILL);
            reap();
        }
        close(answers_);
    }

    [[nodiscard]] pollfd awaited() const { return {.fd = answers_, .events = POLLIN, .revents = 0}; }

    /// Reads the available bytes, and ends the process if its case takes too long. Returns whether it has
    /// ended.
    bool has_ended(bool something_is_there, double most_seconds) {
        if (something_is_there) {
            std::array<std::uint8_t, 65536> some{};
            const ssize_t count = read(answers_, some.data(), some.size());
            if (count > 0)
                bytes_.insert(bytes_.end(), some.begin(), some.begin() + count);
            else if (count == 0 || errno != EINTR)
                return true;
        } else {
            if (static_cast<double>(now_in_milliseconds() - running_.since) > most_seconds * 1000.0)
                late_ = "took longer than " + shortest(most_seconds) + " s";
            else if (patience_is_over())
                late_ = "was interrupted";
            if (late_.empty())
                return false;
            kill(process_, SIGKILL);
            return true;
        }
        return false;
    }

    /// The answer, once the process has ended; null if it gave none.
    ordered_json answer(ProcessEnd& ended) {
        const int status = reap();
        if (late_.empty() && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS) {
            // A process that calls exit(0) has not answered.
            ordered_json said = ordered_json::from_cbor(bytes_, true, false);
            if (said.contains("answer"))
                return std::move(said["answer"]);
            if (said.contains("error")) {
                const std::string error = said["error"];
                if (said["input"])
                    throw Error(error);
                throw std::runtime_error(error);
            }
        }
        ended.line = running_.line.data();
        const std::string where = running_.where.data();
        running_.where[0] = '\0';
        ended.how = !late_.empty() ? late_
                    : WIFSIGNALED(status)
                        ? std::string("crashed (") + strsignal(WTERMSIG(status)) + ")" +
                              (where.empty() ? "" : ": " + where)
                        : "ended its process with status " + std::to_string(WEXITSTATUS(status));
        return nullptr;
    }

  private:
    [[noreturn]] static void answer(const std::function<ordered_json()>& work, int to) {
        ordered_json said;
        try {
            said["answer"] = work();
        } catch (const Error& error) {
            said = {{"error", error.what()}, {"input", true}};
        } catch (const std::exception& error) {
            said = {{"error", error.what()}, {"input", false}};
        }
        const std::vector<std::uint8_t> bytes = ordered_json::to_cbor(said);
        for (std::size_t written = 0; written < bytes.size();) {
            const ssize_t count = write(to, bytes.data() + written, bytes.size() - written);
            if (count < 0 && errno != EINTR)
                _exit(EXIT_FAILURE);
            written += count > 0 ? static_cast<std::size_t>(count) : 0;
        }
        problem::Timeline::write();
        std::fflush(nullptr);
        if (__llvm_profile_write_file != nullptr)
            __llvm_profile_write_file();
        _exit(EXIT_SUCCESS); // not exit: static objects would remove what the parent owns
    }

    int reap() {
        if (&running_ != mine())
            running_.process = 0; // before the id can be reused
        int status = 0;
        while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
        }
        clear_scratch_of(std::exchange(process_, -1));
        return status;
    }

    RunningCase& running_;
    pid_t process_ = -1;
    int answers_ = -1;
    std::string late_;
    std::vector<std::uint8_t> bytes_;
};

/// How long to wait for answers before looking at the clock.
constexpr int look_every_milliseconds = 100;

/// Runs pieces, some of them in processes, and reports them in order.
class Run {
  public:
    Run(const std::vector<Piece>& pieces, const ProcessOptions& options)
        : pieces_(pieces), options_(options), answers_(pieces.size()), before_(pieces.size()) {}

    void all() {
        while (told_ < pieces_.size()) {
            start();
            if (!active_.empty())
                wait();
            for (; told_ < next_ && answers_[told_]; ++told_) {
                pieces_[told_].told(*answers_[told_]);
                answers_[told_] = ordered_json(); // frees it: a failure's can be long
            }
        }
    }

  private:
    struct Active {
        std::size_t piece;
        std::size_t slot;
        std::unique_ptr<Child> child;
    };

    void start() {
        for (; next_ < pieces_.size(); ++next_) {
            const Piece& piece = pieces_[next_];
            if (!piece.work || interruption() != 0) {
                answers_[next_] = ordered_json();
            } else if (piece.here || options_.at_a_time == 0) {
                // Waits for the others: answers are reported in order, and a later fork must not copy a
                // device's context that this piece may make.
                if (!active_.empty())
                    return;
                answers_[next_] = piece.work({});
                ++next_;
                return;
            } else if (!start(next_)) {
                return;
            }
        }
    }

    bool start(std::size_t number) {
        const auto most = static_cast<std::size_t>(std::min(options_.at_a_time, most_processes));
        if (active_.size() >= most)
            return false;
        std::size_t slot = 1;
        while (std::ranges::any_of(active_, [&](const Active& other) { return other.slot == slot; }))
            ++slot;
        RunningCase& running = all_running().at(slot);
        begin(running);
        const auto work = [&, number] { return pieces_[number].work(before_[number]); };
        active_.push_back({number, slot, std::make_unique<Child>(work, running)});
        return true;
    }

    void wait() {
        std::vector<pollfd> awaited;
        for (const Active& active : active_)
            awaited.push_back(active.child->awaited());
        poll(awaited.data(), awaited.size(), look_every_milliseconds);
        for (std::size_t i = active_.size(); i-- > 0;) {
            // The second process ends late cases itself.
            const double grace = before_[active_[i].piece].how.empty() ? 0.0 : 60.0;
            if (active_[i].child->has_ended(awaited[i].revents != 0, options_.most_seconds + grace))
                end(i);
        }
    }

    void end(std::size_t i) {
        const Active active = std::move(active_[i]);
        active_.erase(active_.begin() + static_cast<std::ptrdiff_t>(i));
        ProcessEnd ended;
        ordered_json answer = active.child->answer(ended);
        all_running().at(active.slot).command[0] = '\0';
        if (ended.how.empty() || interruption() != 0) {
            answers_[active.piece] = std::move(answer);
            return;
        }
        if (!before_[active.piece].how.empty())
            throw std::runtime_error("a process of the gate itself " + ended.how +
                                     (ended.line.empty() ? "" : " at the case " + ended.line));
        before_[active.piece] = ended;
        start(active.piece);
    }

    const std::vector<Piece>& pieces_;
    const ProcessOptions& options_;
    std::vector<std::optional<ordered_json>> answers_;
    std::vector<ProcessEnd> before_; ///< by piece: how its first process ended, if it gave no answer
    std::vector<Active> active_;
    std::size_t next_ = 0;
    std::size_t told_ = 0;
};

} // namespace

ordered_json in_child(const std::function<ordered_json()>& work, double most_seconds, ProcessEnd& ended) {
    // The process before has said why it crashed, and the cases of shrinking would say it a thousand times.
    Child child(work, *mine(), true);
    pollfd awaited = child.awaited();
    do
        poll(&awaited, 1, look_every_milliseconds);
    while (!child.has_ended(awaited.revents != 0, most_seconds));
    return child.answer(ended);
}

int usual_processes() {
    cpu_set_t cores;
    const int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return std::clamp(count, 1, most_processes);
}

void run_pieces(const std::vector<Piece>& pieces, const ProcessOptions& options) {
    Run(pieces, options).all();
}

} // namespace truestep::gate
