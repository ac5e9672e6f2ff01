// The system calls and C globals that Swift's Glibc module does not offer, or not safely.
#pragma once
#include "crash.h"
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/// `environ`, which Swift 6 refuses as a mutable global.
char *const *linux_environment(void);

/// "ECONNRESET" and the like; NULL for a number without a name.
const char *linux_error_name(int code);

/// "SEGV" and the like; NULL for a number that is no signal.
const char *linux_signal_name(int signal);

/// Names the calling thread (at most 15 bytes are kept), as `top -H` shows it.
void linux_name_thread(const char *name);

/// malloc for a process that frees large buffers between many small ones; before the first thread is started.
///
/// There are at most `heaps` heaps (mallopt(3), M_ARENA_MAX), because each keeps what its busiest moment needed. There are
/// no fastbins (M_MXFAST), because glibc joins all of them whenever 64 KB are freed, as librdkafka does with each fetch.
/// Blocks of up to 2 MiB come from the heap, because mapping and unmapping each fetch buffer costs more.
void linux_tune_malloc(int heaps);

/// Raises the soft limit of open descriptors to the hard one (setrlimit(2), RLIMIT_NOFILE), which needs no right. Returns the
/// limit that is in force then, or INT64_MAX if there is none or it is unknown.
int64_t linux_raise_descriptor_limit(void);

/// From now on `linux_open_to_read` refuses, on the calling thread, what is no regular file (1), or takes any again (0).
void linux_read_regular_files_only(int only);

/// From now on `listener`, unless it is NULL, is told on the calling thread which file is read next, before the system is
/// asked for it.
void linux_tell_paths(void (*listener)(void *context, const char *path), void *context);

/// Tells the calling thread's listener, if there is one, that this file is read next.
void linux_tell_path(const char *path);

/// open(2) to read, with O_CLOEXEC; -1 with errno on failure. Opening a pipe waits for a writer, and reading one for what it
/// writes: where the calling thread takes regular files only, -2 says that it is none, and nothing is waited for. Symbolic
/// links are followed. A network file system that does not answer is waited for all the same; `linux_tell_paths` says by
/// whom.
int linux_open_to_read(const char *path);

/// memfd_create(2) with MFD_CLOEXEC, which Swift's Glibc module lacks.
int linux_memory_file(const char *name);
