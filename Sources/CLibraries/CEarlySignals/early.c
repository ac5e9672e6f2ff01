#include "CEarlySignals.h"
#include <signal.h>
#include <stddef.h>
#include <string.h>

int early_signals_are_held;

static void hold(int count, char **arguments, char **environment) {
    (void)environment;
    if (count < 2 || strcmp(arguments[1], "run") != 0) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    // There are no other threads yet.
    early_signals_are_held = sigprocmask(SIG_BLOCK, &set, NULL) == 0;
}

// Of the executable alone, and called before the constructors of all libraries (System V ABI, DT_PREINIT_ARRAY); glibc gives
// it what main gets.
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = hold;
