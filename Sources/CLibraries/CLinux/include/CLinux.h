// System calls and C globals that Swift's Glibc module lacks or cannot use safely.
#pragma once
#include "crash.h"
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

/// Returns `environ`, which Swift 6 rejects as a mutable global.
char *const *linux_environment(void);

/// Returns the name of an `errno` value, such as "ECONNRESET", or NULL for an unknown number.
const char *linux_error_name(int code);

/// Returns the name of a signal, such as "SEGV", or NULL for a signal without a name.
const char *linux_signal_name(int signal);

/// Sets the calling thread's name as shown by `top -H`, truncated to 15 bytes.
void linux_name_thread(const char *name);

/// Configures malloc for a process with many small allocations and frequent large ones. Call it before the first thread
/// is started.
///
/// The number of arenas is limited to `heaps` (mallopt(3), M_ARENA_MAX), because each arena keeps the memory of its
/// peak use. Fastbins are disabled (M_MXFAST), because glibc consolidates all of them when a large block is freed, and
/// librdkafka frees one with each fetch. Blocks of up to 2 MiB come from the heap, because mapping and unmapping each
/// fetch buffer costs more.
void linux_tune_malloc(int heaps);

/// Returns unused pages of all arenas to the kernel (malloc_trim(3)). It takes some milliseconds after a
/// load. Meanwhile other threads cannot allocate from that arena.
void linux_return_memory(void);

/// Raises the soft limit of open descriptors to the hard limit (setrlimit(2), RLIMIT_NOFILE), which needs no privilege.
/// Returns the resulting limit, or INT64_MAX if there is no limit or the limit is unknown.
int64_t linux_raise_descriptor_limit(void);

/// Makes `linux_open_to_read` on the calling thread reject non-regular files (1) or accept all files again (0).
void linux_read_regular_files_only(int only);

/// Opens a file for reading with O_CLOEXEC. Returns -1 with errno on failure. Opening a pipe waits for a writer, and
/// reading it waits for data. If the calling thread accepts regular files only, other files that can be opened yield
/// -2, without a wait. Symbolic links are followed. An unresponsive network file system can still block the call.
int linux_open_to_read(const char *path);

/// Calls memfd_create(2) with MFD_CLOEXEC. Swift's Glibc module lacks this function.
int linux_memory_file(const char *name);
