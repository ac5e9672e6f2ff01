// The page of memory that a worker shares with its supervisor. It contains the position of the record that each thread
// is processing, and the positions of the records that earlier workers were processing when they crashed.
#pragma once
#include <stdint.h>

/// A record's position. `topic` is a number from `crash_topic`, or 0 for no record.
struct crash_place {
    int64_t offset;
    int32_t partition;
    int32_t topic;
} __attribute__((swift_name("CrashPlace")));

enum {
    /// The number of threads that process records: the core thread (0) and the net thread (1).
    CRASH_THREADS = 2,
    /// The maximum number of stored crashes. A new crash overwrites the oldest one.
    CRASH_DEATH_LIMIT = 64,
    CRASH_TOPIC_LIMIT = 1024,
};

/// A crash: the signal that killed the worker, and the position of the record that each thread was processing.
struct crash_death {
    int32_t signal;
    struct crash_place places[CRASH_THREADS];
} __attribute__((swift_name("CrashDeath")));

/// The calling thread's entry in the shared page, or NULL if the thread has none or there is no supervisor.
extern _Thread_local struct crash_place *crash_current __attribute__((tls_model("initial-exec")));

/// Stores the position of the record that the calling thread begins to process.
static inline void crash_at(const struct crash_place *place) {
    struct crash_place *current = crash_current;
    if (!current) return;
    *current = *place;
    // The compiler must not move this store after the work that may crash the process.
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/// Clears the position that `crash_at` stored. Call it when the calling thread has processed the record.
static inline void crash_nowhere(void) {
    struct crash_place *current = crash_current;
    if (current) current->topic = 0;
}

/// Assigns an entry in the shared page to the calling thread: 0 for the core thread, 1 for the net thread.
void crash_enter_thread(int thread);

/// Returns the number of a topic, which is the same for all workers of one supervisor. Returns 0 without a supervisor,
/// or if `CRASH_TOPIC_LIMIT` other topics already have numbers. If a worker crashes while it processes a record of a
/// topic with the number 0, the crash is stored without the record's position.
int32_t crash_topic(const void *bytes, int32_t count);

/// Returns the name of the topic with this number, or NULL if there is none.
const char *crash_topic_name(int32_t topic);

// MARK: Supervisor

/// Creates the shared page. Returns its descriptor, which child processes inherit, or -1 with errno.
int crash_page_make(void);

/// Stores the crash of a worker that `signal` killed, with the record position of each of its threads.
void crash_add_death(int signal);

/// Returns whether a worker has called `crash_run_alone`. If so, the next worker must run without a supervisor.
int crash_is_alone(void);

// MARK: Worker

/// Maps the supervisor's page from `descriptor`, and makes the kernel kill this process when the supervisor dies.
/// Returns 0, or -1 if the descriptor does not refer to a supervisor's page or the supervisor has already died.
int crash_page_adopt(int descriptor);

/// Requests that the next worker runs without a supervisor. Call it before this process exits.
void crash_run_alone(void);

/// Returns whether a worker has crashed since the last call, so that a start that a worker requested does not report an
/// earlier crash again.
int crash_is_new(void);

/// Returns how many workers of this supervisor have crashed, or 0 without a supervisor.
int64_t crash_death_count(void);

/// Returns the stored crash with this number. The supervisor's first crashed worker has the number 0. Only the last
/// `CRASH_DEATH_LIMIT` crashes are stored.
struct crash_death crash_death(int64_t number);

/// Removes a partition's records from all stored crashes. Call it if the topic was recreated, because the offsets then
/// belong to other records.
void crash_forget(const void *topic, int32_t count, int32_t partition);
