#pragma once

// Who is interrupted may still say what was done.

namespace truestep::gate {

/// From here on the first INT, TERM or HUP is noted and `first` called in its place, so that what has been
/// done can still be told; a second one goes to whoever had the signal before. Signals that are ignored
/// stay so. Work that does not ask is given some seconds, and then ended as by a second signal.
void note_interruptions(void (*first)(int signal));

/// The signal that was noted, in this process or the one that has started it; 0: none.
[[nodiscard]] int interruption();

/// In the process that noted it: whoever was started by it has had the time to end by itself.
[[nodiscard]] bool patience_is_over();

/// In a process that was started by the one that notes: a signal of a terminal comes to both, and one of
/// them is enough.
void leave_interruptions_to_the_parent();

/// What was under way has ended: from here on only a second signal ends the process at once.
void work_has_ended();

} // namespace truestep::gate
