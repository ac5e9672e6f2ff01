#define _GNU_SOURCE
#include "CLinux.h"
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

char *const *linux_environment(void) { return environ; }

const char *linux_error_name(int code) { return strerrorname_np(code); }

const char *linux_signal_name(int signal) { return sigabbrev_np(signal); }

void linux_name_thread(const char *name) {
    // pthread_setname_np(3) fails with ERANGE for more than 16 bytes including the terminating NUL.
    char short_name[16] = {0};
    strncpy(short_name, name, sizeof short_name - 1);
    pthread_setname_np(pthread_self(), short_name);
}

static _Thread_local int regular_files_only;

void linux_read_regular_files_only(int only) { regular_files_only = only; }

int linux_open_to_read(const char *path) {
    if (!regular_files_only) return open(path, O_RDONLY | O_CLOEXEC);
    // With O_NONBLOCK, opening a pipe does not wait for a writer. For a regular file the flag has no effect.
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode)) return descriptor;
    close(descriptor);
    return -2;
}

int64_t linux_raise_descriptor_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return INT64_MAX;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

void linux_tune_malloc(int heaps) {
    mallopt(M_ARENA_MAX, heaps);
    mallopt(M_MXFAST, 0);
    // The threshold is larger than most fetch responses, whose buffers are allocated and freed frequently.
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
    // Twice the mmap threshold, as glibc itself chooses when it adjusts both thresholds dynamically.
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

void linux_return_memory(void) { malloc_trim(0); }

int linux_memory_file(const char *name) { return memfd_create(name, MFD_CLOEXEC); }

// `apns-worker run` blocks SIGHUP, SIGTERM and SIGINT before any library's constructor runs, some milliseconds before
// `main`. A blocked signal stays pending until the worker handles it. The kernel would drop a signal that process 1 of
// a container neither blocks nor handles.
static void hold_signals(int count, char **arguments, char **environment) {
    (void)environment;
    if (count < 2 || strcmp(arguments[1], "run") != 0) return;
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
}

// The dynamic linker calls this before the constructors of all libraries (System V ABI, DT_PREINIT_ARRAY). glibc passes
// the arguments of `main`.
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **, char **) = hold_signals;
