// Signals that come before the first line of the program: linking this target is all there is to do.
#pragma once

/// 1 once `apns-worker run` holds SIGHUP, SIGTERM and SIGINT back: from before the first constructor of a library, some
/// milliseconds before `main`. A signal that is blocked waits, also one to process 1 of a container, which the kernel would
/// drop otherwise. 0 for every other command, where they do what they always do.
///
/// What comes before that, while the dynamic linker loads libraries, still does what its sender's process left for it.
extern int early_signals_are_held;
