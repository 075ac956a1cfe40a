// One process of a program under test.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/types.h>

namespace truestep::gate {

/// The words of a command, as a shell reads them: quotes, variables, ~, *. Throws truestep::Error for what
/// only a shell can do.
[[nodiscard]] std::vector<std::string> words_of(const std::string& command);

/// A program's output as it goes into a message: one line of ASCII.
[[nodiscard]] std::string plain_line(std::string text);

/// One process of a program, in a process group of its own, which ends when this object does. It never
/// waits; its user polls.
class ProgramProcess {
  public:
    /// Throws truestep::Error if it cannot be started.
    ProgramProcess(const std::vector<std::string>& words, const std::vector<std::string>& environment);
    ~ProgramProcess();
    ProgramProcess(const ProgramProcess&) = delete;
    ProgramProcess& operator=(const ProgramProcess&) = delete;

    /// Sends a line: now what its input takes, and the rest later.
    void send(const std::string& line);
    /// Reads the available output and errors, and sends what is left to send.
    void work();
    /// Adds the events to wait for, for poll().
    void add_to(std::vector<pollfd>& awaited) const;

    /// The first complete line, removed from the output.
    [[nodiscard]] std::optional<std::string> take_line();
    /// The output that was not taken.
    [[nodiscard]] const std::string& left() const { return output_; }
    [[nodiscard]] bool output_is_closed() const { return out_ < 0; }
    /// The last non-empty lines of its standard error.
    [[nodiscard]] std::vector<std::string> last_lines(std::size_t most);
    /// How it ended: "ended with status 3", "was killed (Segmentation fault)"; "" if it has not within a
    /// second.
    [[nodiscard]] std::string end() const;

    /// Closes its input, at which a program that reads it ends by itself.
    void close_input();
    [[nodiscard]] bool has_ended() const;

  private:
    void start(const std::vector<std::string>& words, const std::vector<std::string>& environment);
    void close_all();

    pid_t process_ = -1;
    int in_ = -1;
    int out_ = -1;
    int errors_ = -1;
    std::string input_; ///< not sent yet
    std::string output_;
    std::string complaints_;
};

/// Ends all programs. Safe in a signal handler.
void kill_programs();

} // namespace truestep::gate
