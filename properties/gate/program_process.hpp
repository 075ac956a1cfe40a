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

/// What a program has written, as it goes into a message: one line of ASCII, whatever it was.
[[nodiscard]] std::string plain_line(std::string text);

/// One process of a program, in a process group of its own, which ends when this does. It never waits: who
/// uses it polls.
class ProgramProcess {
  public:
    /// Throws truestep::Error if it cannot be started.
    ProgramProcess(const std::vector<std::string>& words, const std::vector<std::string>& environment);
    ~ProgramProcess();
    ProgramProcess(const ProgramProcess&) = delete;
    ProgramProcess& operator=(const ProgramProcess&) = delete;

    /// Puts a line into its input, as far as that takes it, and the rest later.
    void send(const std::string& line);
    /// Takes what has come on its output and its errors, and sends what is left.
    void work();
    /// Whatever may happen next, for poll().
    void add_to(std::vector<pollfd>& awaited) const;

    /// The first whole line that has come.
    [[nodiscard]] std::optional<std::string> take_line();
    /// What has come and was not taken.
    [[nodiscard]] const std::string& left() const { return output_; }
    [[nodiscard]] bool output_is_closed() const { return out_ < 0; }
    /// The last lines that it wrote to its standard error, without empty ones.
    [[nodiscard]] std::vector<std::string> last_lines(std::size_t most);
    /// How it ended: "ended with status 3", "was killed (Segmentation fault)"; "" if it has not within a
    /// second.
    [[nodiscard]] std::string end() const;

    /// No more comes: a program that reads its input ends of itself.
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

/// Ends all of them. From a signal handler.
void kill_programs();

} // namespace truestep::gate
