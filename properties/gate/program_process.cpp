// Starts one process of a program under test, exchanges lines with it, and kills its group.
#include "program_process.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <wordexp.h>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::gate {

namespace {

/// The running process groups, for a signal handler. A slot holds 0 or a group.
std::array<std::atomic<pid_t>, 512> groups{};

void remember(pid_t group) {
    for (auto& slot : groups) {
        pid_t empty = 0;
        if (slot.compare_exchange_strong(empty, group))
            return;
    }
}

void forget(pid_t group) {
    for (auto& slot : groups) {
        pid_t known = group;
        if (slot.compare_exchange_strong(known, 0))
            return;
    }
}

void close_end(int& end) {
    if (end >= 0)
        close(end);
    end = -1;
}

/// A pipe whose ends no other process inherits.
std::array<int, 2> ends_of_a_pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0)
        throw Error(std::string("--program: no pipe to a process: ") + std::strerror(errno));
    return ends;
}

void never_wait(int end) {
    fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK);
}

/// Appends the available bytes, at most 2 MiB at a time, since a program may write without end. Returns
/// false at the end of the input.
bool read_from(int end, std::string& to) {
    std::array<char, 65536> some{};
    for (int times = 0; times < 32; ++times) {
        const ssize_t count = read(end, some.data(), some.size());
        if (count > 0)
            to.append(some.data(), static_cast<std::size_t>(count));
        else if (count == 0)
            return false;
        else if (errno != EINTR)
            return errno == EAGAIN;
    }
    return true;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    all.reserve(texts.size() + 1);
    for (const std::string& text : texts)
        all.push_back(const_cast<char*>(text.c_str())); // execvpe does not write to it
    all.push_back(nullptr);
    return all;
}

/// Our environment, with the added variables replacing those of the same names.
std::vector<std::string> environment_with(const std::vector<std::string>& added) {
    std::vector<std::string> all = added;
    for (char** ours = environ; *ours != nullptr; ++ours) {
        const std::string one = *ours;
        const std::string name = one.substr(0, one.find('=') + 1);
        if (std::ranges::none_of(added, [&](const std::string& other) { return other.starts_with(name); }))
            all.push_back(one);
    }
    return all;
}

} // namespace

std::vector<std::string> words_of(const std::string& command) {
    wordexp_t found{};
    const int fault = wordexp(command.c_str(), &found, WRDE_NOCMD);
    std::vector<std::string> words;
    for (std::size_t i = 0; fault == 0 && i < found.we_wordc; ++i)
        words.emplace_back(found.we_wordv[i]);
    if (fault == 0)
        wordfree(&found);
    if (fault == WRDE_BADCHAR || fault == WRDE_CMDSUB)
        throw Error("--program '" + one_line(command) +
                    "' has what only a shell can do (one of | & ; < > ( ) { } ` $( or a line break); quote "
                    "it, or put it into a script and name that");
    if (fault == WRDE_SYNTAX)
        throw Error("--program '" + one_line(command) + "' has a quote that does not end; add it");
    if (fault != 0 || words.empty())
        throw Error("--program is '" + one_line(command) +
                    "'; it must be a command, such as 'python3 my_optimizer.py'");
    return words;
}

std::string plain_line(std::string text) {
    text = one_line(std::move(text));
    std::ranges::replace_if(
        text, [](char letter) { return static_cast<unsigned char>(letter) > 0x7e; }, '?');
    return text;
}

ProgramProcess::ProgramProcess(const std::vector<std::string>& words,
                               const std::vector<std::string>& environment) {
    try {
        start(words, environment);
    } catch (...) {
        close_all();
        throw;
    }
}

void ProgramProcess::start(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment) {
    const std::vector<std::string> whole = environment_with(environment);
    const std::vector<char*> arguments = pointers(words);
    const std::vector<char*> variables = pointers(whole);
    // A socket, since it can report a missing reader without a signal.
    std::array<int, 2> input{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, input.data()) != 0)
        throw Error(std::string("--program: no socket to a process: ") + std::strerror(errno));
    in_ = input[1];
    std::array<int, 2> output = ends_of_a_pipe();
    out_ = output[0];
    std::array<int, 2> errors = ends_of_a_pipe();
    errors_ = errors[0];
    std::array<int, 2> fate = ends_of_a_pipe();
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(EXIT_FAILURE);
        dup2(input[0], STDIN_FILENO);
        dup2(output[1], STDOUT_FILENO);
        dup2(errors[1], STDERR_FILENO);
        execvpe(arguments[0], arguments.data(), variables.data());
        const int fault = errno;
        if (write(fate[1], &fault, sizeof fault) < 0)
            _exit(EXIT_FAILURE);
        _exit(EXIT_FAILURE);
    }
    const int no_process = errno;
    close_end(input[0]);
    close_end(output[1]);
    close_end(errors[1]);
    close_end(fate[1]);
    int fault = process_ < 0 ? no_process : 0;
    if (process_ > 0) {
        setpgid(process_, process_); // in both processes, so that the order does not matter
        remember(process_);
        while (read(fate[0], &fault, sizeof fault) < 0 && errno == EINTR) {
        }
    }
    close_end(fate[0]);
    if (fault != 0)
        throw Error("--program: '" + one_line(words.front()) +
                    "' cannot be started: " + std::strerror(fault) +
                    (fault == ENOENT   ? "; check the path"
                     : fault == EACCES ? "; make it executable, or put its interpreter before it"
                                       : ""));
    for (const int end : {in_, out_, errors_})
        never_wait(end);
}

ProgramProcess::~ProgramProcess() {
    close_all();
}

void ProgramProcess::close_all() {
    if (process_ > 0) {
        kill(-process_, SIGKILL); // with all its children
        kill(process_, SIGKILL);
        forget(process_); // before the id can be reused
        while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
        }
    }
    process_ = -1;
    close_end(in_);
    close_end(out_);
    close_end(errors_);
}

void ProgramProcess::send(const std::string& line) {
    input_ += line + "\n";
    work();
}

void ProgramProcess::work() {
    while (in_ >= 0 && !input_.empty()) {
        const ssize_t count = ::send(in_, input_.data(), input_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (count > 0)
            input_.erase(0, static_cast<std::size_t>(count));
        else if (errno == EAGAIN)
            break;
        else if (errno != EINTR)
            close_end(in_); // it does not listen; its output shows what follows
    }
    if (out_ >= 0 && !read_from(out_, output_))
        close_end(out_);
    if (errors_ >= 0 && !read_from(errors_, complaints_))
        close_end(errors_);
    constexpr std::size_t enough = 8192;
    if (complaints_.size() > 2 * enough)
        complaints_.erase(0, complaints_.size() - enough);
}

void ProgramProcess::add_to(std::vector<pollfd>& awaited) const {
    if (in_ >= 0 && !input_.empty())
        awaited.push_back({.fd = in_, .events = POLLOUT, .revents = 0});
    if (out_ >= 0)
        awaited.push_back({.fd = out_, .events = POLLIN, .revents = 0});
    if (errors_ >= 0)
        awaited.push_back({.fd = errors_, .events = POLLIN, .revents = 0});
}

std::optional<std::string> ProgramProcess::take_line() {
    const std::size_t end = output_.find('\n');
    if (end == std::string::npos)
        return std::nullopt;
    std::string line = output_.substr(0, end);
    output_.erase(0, end + 1);
    return line;
}

std::vector<std::string> ProgramProcess::last_lines(std::size_t most) {
    if (errors_ >= 0 && !read_from(errors_, complaints_))
        close_end(errors_);
    constexpr std::size_t most_told = 300;
    std::vector<std::string> lines;
    for (std::size_t end = complaints_.size(); end > 0 && lines.size() < most;) {
        const std::size_t last = complaints_.find_last_not_of(" \t\r\n", end - 1);
        if (last == std::string::npos)
            break;
        const std::size_t before = complaints_.find_last_of("\r\n", last);
        end = before == std::string::npos ? 0 : before + 1;
        lines.push_back(plain_line(complaints_.substr(end, last + 1 - end)).substr(0, most_told));
    }
    std::ranges::reverse(lines);
    return lines;
}

namespace {

/// How a process ended, if it has. It is not reaped, so that its id is not reused.
siginfo_t state_of(pid_t process) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT);
    return info;
}

} // namespace

bool ProgramProcess::has_ended() const {
    return state_of(process_).si_pid != 0;
}

std::string ProgramProcess::end() const {
    for (int look = 0; look < 100 && !has_ended(); ++look)
        poll(nullptr, 0, 10);
    const siginfo_t state = state_of(process_);
    if (state.si_pid == 0)
        return {};
    return state.si_code == CLD_EXITED ? "ended with status " + std::to_string(state.si_status)
                                       : std::string("was killed (") + strsignal(state.si_status) + ")";
}

void ProgramProcess::close_input() {
    close_end(in_);
}

void kill_programs() {
    for (const auto& slot : groups)
        if (const pid_t group = slot; group > 0)
            kill(-group, SIGKILL);
}

} // namespace truestep::gate
