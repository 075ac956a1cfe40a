#pragma once

// Interruptions by signals: the results so far are still reported.

namespace truestep::gate {

/// From here on the first INT, TERM or HUP is noted and `first` is called, so that results can still be
/// reported; a second one goes to the earlier handler. Ignored signals stay ignored. Work that does not ask
/// interruption() gets some seconds, and then ends as if by a second signal.
void note_interruptions(void (*first)(int signal));

/// The signal that this process or its parent noted; 0: none.
[[nodiscard]] int interruption();

/// Whether this process noted an interruption long enough ago for its children to have ended by themselves.
[[nodiscard]] bool patience_is_over();

/// For a child of the noting process: a terminal's signal comes to both, and the parent handles it.
void leave_interruptions_to_the_parent();

/// The interrupted work has ended: from here on only a second signal ends the process at once.
void work_has_ended();

} // namespace truestep::gate
