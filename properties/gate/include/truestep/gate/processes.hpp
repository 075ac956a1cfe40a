#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// Work in separate processes: several pieces at a time; a crash or a hang ends only its own piece.

namespace truestep::gate {

/// Notes what this process is doing, for reports of a crash or a time limit. `line` is the case of
/// `command`.
void now_running(const std::string& command, const std::string& line = {});
/// ", while running: COMMAND", or "".
[[nodiscard]] std::string what_is_running();
/// From here on a crash or an interruption prints the commands that this process and its children were
/// running.
void tell_of_crashes();
/// From here on an interruption no longer ends this process at once: `run_pieces` ends what runs and starts
/// no more, and searches end before their next case. end_if_interrupted() has to follow.
void tell_what_was_done();
/// Ends this process by the signal that has interrupted it, if one has.
void end_if_interrupted();
/// Turns off these reports.
void no_more_to_tell();

/// How a process without an answer ended.
struct ProcessEnd {
    std::string how;  ///< "crashed (Segmentation fault)", "took longer than 180 s"; "": none has ended so
    std::string line; ///< the case that was running
};

/// The answer of `work` in a child process, or null; then `ended` holds how the child ended. An error of
/// the work is thrown here.
[[nodiscard]] nlohmann::ordered_json in_child(const std::function<nlohmann::ordered_json()>& work,
                                              double most_seconds, ProcessEnd& ended);

/// One piece of work, and the function that takes its answer.
struct Piece {
    /// Runs in a child process, and a second time if the first one has given no answer. Without it only
    /// `told` is called.
    std::function<nlohmann::ordered_json(const ProcessEnd& before)> work;
    std::function<void(const nlohmann::ordered_json&)> told;
    bool here = false; ///< it has to run in this process
};

struct ProcessOptions {
    int at_a_time = 0;           ///< 0: all in this process
    double most_seconds = 180.0; ///< for one case
};

/// As many as there are cores for this process, up to 16.
[[nodiscard]] int usual_processes();

/// Runs all pieces, and passes on their answers in order. An error of a piece is thrown here. Pieces that
/// an interruption prevents have null as their answer.
void run_pieces(const std::vector<Piece>& pieces, const ProcessOptions& options);

} // namespace truestep::gate
