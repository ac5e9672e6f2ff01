// The page of memory that a worker shares with its supervisor: which record each thread is working on, and where earlier
// workers died.
#pragma once
#include <stdint.h>

/// A record's position. `topic` is a number from `crash_topic`; 0 means no record.
struct crash_place {
    int64_t offset;
    int32_t partition;
    int32_t topic;
} __attribute__((swift_name("CrashPlace")));

enum {
    /// The threads that work on records: the core (0) and the net thread (1).
    CRASH_THREADS = 2,
    /// How many deaths are remembered. The oldest are overwritten.
    CRASH_DEATH_LIMIT = 64,
    CRASH_TOPIC_LIMIT = 1024,
};

/// How a worker died, and the record that each of its threads was working on.
struct crash_death {
    int32_t signal;
    struct crash_place places[CRASH_THREADS];
} __attribute__((swift_name("CrashDeath")));

/// The calling thread's entry in the shared page, or NULL for a thread that has none and a process without a supervisor.
extern _Thread_local struct crash_place *crash_current __attribute__((tls_model("initial-exec")));

/// Notes that the calling thread now works on this record.
static inline void crash_at(const struct crash_place *place) {
    struct crash_place *current = crash_current;
    if (!current) return;
    *current = *place;
    // The compiler must not move the store behind the work that may end the process.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/// Notes that the calling thread no longer works on a single record.
static inline void crash_nowhere(void) {
    struct crash_place *current = crash_current;
    if (current) current->topic = 0;
}

/// Gives the calling thread an entry in the shared page: 0 for the core, 1 for the net thread.
void crash_enter_thread(int thread);

/// Returns the number of a topic's name, which stays the same for all workers of one supervisor. Returns 0 without a
/// supervisor, and once `CRASH_TOPIC_LIMIT` other names were asked for: deaths at such a topic have no known record.
int32_t crash_topic(const void *bytes, int32_t count);

/// Returns the name of a topic by its number, or NULL for 0.
const char *crash_topic_name(int32_t topic);

// Supervisor

/// Makes the shared page. Returns its descriptor, which child processes inherit, or -1 with errno.
int crash_page_make(void);

/// Adds a death to the page, at the records that the dead worker's threads were working on.
void crash_add_death(int signal);

/// Whether the worker asked to run without a supervisor.
int crash_is_alone(void);

// Worker

/// Maps the page of the supervisor behind `descriptor`, and asks the kernel to kill this process when the supervisor dies.
/// Returns 0, or -1 when the descriptor is no such page or the supervisor is dead already.
int crash_page_adopt(int descriptor);

/// Asks the supervisor to step aside once this process has exited.
void crash_run_alone(void);

/// How many workers died under this supervisor; 0 without one.
int64_t crash_death_count(void);

/// The death with this number, counted from 0. Only the last `CRASH_DEATH_LIMIT` are there.
struct crash_death crash_death(int64_t number);

/// Removes the records of a partition from all deaths, because other records now have their offsets.
void crash_forget(const void *topic, int32_t count, int32_t partition);
