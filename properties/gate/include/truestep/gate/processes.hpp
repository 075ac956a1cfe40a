#pragma once

#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// Work in processes of its own: several pieces at a time, and what crashes or hangs ends its piece alone.

namespace truestep::gate {

/// What this process is doing, for whoever finds it dead or too slow. `line` is the case of `command`.
void now_running(const std::string& command, const std::string& line = {});
/// ", while running: COMMAND", or "".
[[nodiscard]] std::string what_is_running();
/// From here on a crash or an interruption prints the commands that were being run, by this process and
/// those that it has started.
void tell_of_crashes();
/// And an interruption no longer ends this process at once: `run_pieces` ends what runs and begins no more,
/// searches end before their next case. To be followed by end_if_interrupted().
void tell_what_was_done();
/// Ends this process by the signal that has interrupted it, if one has.
void end_if_interrupted();
/// And from here on no more.
void no_more_to_tell();

/// How a process ended that gave no answer.
struct Ended {
    std::string how;  ///< "crashed (Segmentation fault)", "took longer than 180 s"; "": none has
    std::string line; ///< the case that was running
};

/// What `work` answers in a process of its own, or null, and then how that one ended. An error of the work
/// is thrown here.
[[nodiscard]] nlohmann::ordered_json in_child(const std::function<nlohmann::ordered_json()>& work,
                                              double most_seconds, Ended& ended);

/// One piece of work, and who is told what came of it.
struct Piece {
    /// Runs in a process of its own; a second time if that one has given no answer. Without it there is
    /// nothing to do but to tell.
    std::function<nlohmann::ordered_json(const Ended& before)> work;
    std::function<void(const nlohmann::ordered_json&)> told;
    bool here = false; ///< it can be done in this process alone
};

struct ProcessOptions {
    int at_a_time = 0;           ///< 0: all in this process
    double most_seconds = 180.0; ///< that one case may take
};

/// As many as there are cores for this process, up to 16.
[[nodiscard]] int usual_processes();

/// Does them all, and tells of each in their order. An error of a piece is thrown here. Those that an
/// interruption leaves undone answer null.
void run_pieces(const std::vector<Piece>& pieces, const ProcessOptions& options);

} // namespace truestep::gate
