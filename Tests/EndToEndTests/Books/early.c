// FaultyStartTests preload this library into a worker (LD_PRELOAD). It raises a signal while libraries are initialized.
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((constructor)) static void early(void) {
    const char *number = getenv("EARLY_SIGNAL");
    if (number && strcmp(program_invocation_short_name, "apns-worker") == 0) kill(getpid(), atoi(number));
}
