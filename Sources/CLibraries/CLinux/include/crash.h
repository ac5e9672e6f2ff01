// Which record a thread is at, and what becomes of a process that dies at one.
#pragma once
#include <stdint.h>

/// A record as it was read. `topic` is from `crash_topic`: a place may outlive the partition it is of.
struct crash_place {
    const void *topic;
    int32_t topic_count;
    int32_t partition;
    int64_t offset;
} __attribute__((swift_name("CrashPlace")));

/// What the thread works on; NULL: nothing, or nothing of one record.
extern _Thread_local const struct crash_place *volatile crash_current __attribute__((tls_model("initial-exec")));

/// The calling thread works on this record until it says otherwise. The place stays where it is meanwhile.
static inline void crash_at(const struct crash_place *place) { crash_current = place; }

/// The calling thread works on nothing of one record any more.
static inline void crash_nowhere(void) { crash_current = 0; }

/// This place ends now: the calling thread is at it no more.
static inline void crash_left(const struct crash_place *place) {
    if (crash_current == place) crash_current = 0;
}

/// The next record of the place that the thread is at. (The fence: a store is not put off beyond what may die.)
static inline void crash_next(struct crash_place *place, int64_t offset) {
    place->offset = offset;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/// So many names are kept.
#define CRASH_TOPIC_LIMIT 4096

/// A topic's name that stays where it is for ever, for places; the same for the same name. NULL, which no line names, where
/// `CRASH_TOPIC_LIMIT` others were asked for before.
const void *crash_topic(const void *bytes, int32_t count);

/// From now on a death by SIGILL, SIGTRAP, SIGSEGV, SIGBUS or SIGABRT writes a line that names the record, and a
/// backtrace, and replaces the process by its program, started again with the same arguments, PID and working directory.
/// Descriptors other than the standard ones are closed; SIGTERM, SIGINT and SIGHUP are blocked, other signals as they were;
/// a signal to stop that came before is pending (`crash_stopping`). Once, on the main thread.
///
/// What another process sends with kill(2) does what it always does. Does nothing where a sanitizer is at work.
///
/// - `arguments`: of the program, NULL at the end; copied.
/// - `variable`: `NAME=TEXT` of the environment it is started with; `;SIGNAL,MS,PARTITION,OFFSET,TOPIC` is appended (MS:
///   CLOCK_MONOTONIC; without a record the last three are `-`), and cut off where it does not fit.
/// - `prefix`: what the line begins with.
/// - Returns 1; 0: a sanitizer is at work, or there is no memory.
int crash_contain(const char *const *arguments, const char *variable, const char *prefix);

/// `variable` of `crash_contain` is another one from now on, under the same name. Does nothing where no death is contained,
/// or there is no memory. Any thread. Each call keeps its text for ever: not for what happens often.
void crash_remember(const char *variable);

/// A signal to stop was taken: what replaces the process after a death is sent it again. Any thread.
void crash_stopping(int signal);

/// For a thread that a library started, which blocks every signal and has no other stack: it dies as ours do. At its
/// beginning, and its end.
void crash_thread_begin(void);
void crash_thread_end(void);

/// A stack for the calling thread to die on, so that running out of its own can be told; NULL: none is needed.
void *crash_stack_begin(void);
/// Gives it back; by the same thread, at its end.
void crash_stack_end(void *stack);
