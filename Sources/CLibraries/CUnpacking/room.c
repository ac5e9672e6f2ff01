// Whether there is memory for a batch now, and grants for one for which there is none.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "batches.h"
#include <malloc.h>
#include <pthread.h>
#include <time.h>

// MARK: Grants

/// A batch that may be unpacked whatever is allocated.
typedef struct {
    int64_t base_offset;
    size_t size;
    /// Monotonic; over already: there is none.
    int64_t until_ns;
} batch_grant;

static _Atomic uint64_t granted_count;

uint64_t unpacking_granted_count(void) { return atomic_load(&granted_count); }

static pthread_mutex_t grants_lock = PTHREAD_MUTEX_INITIALIZER;
static batch_grant grants[UNPACKING_GRANTS];
/// The batch of this thread that was let through last: it may ask several times until then.
static const int64_t let_through_ns = 2 * 1000000000ll;
static __thread struct {
    int64_t until_ns;
    const void *records;
    int64_t base_offset;
    size_t size;
    uint32_t crc;
} let_through;

void unpacking_grant(int64_t base_offset, size_t size, int64_t for_ns) {
    pthread_mutex_lock(&grants_lock);
    int taken = 0;
    for (int index = 0; index < UNPACKING_GRANTS; index++) {
        if (grants[index].base_offset == base_offset && grants[index].size == size) {
            taken = index;
            break;
        }
        if (grants[index].until_ns < grants[taken].until_ns) taken = index;
    }
    grants[taken] = (batch_grant){base_offset, size, now_ns() + for_ns};
    pthread_mutex_unlock(&grants_lock);
}

/// Whether the batch is let through; that uses its grant up.
static bool takes_grant(const batch_work *work) {
    if (!work->has_header) return false;
    int64_t now = now_ns();
    if (now < let_through.until_ns && let_through.records == work->records
        && let_through.base_offset == work->header.base_offset && let_through.size == work->header.size
        && let_through.crc == work->crc) {
        return true;
    }
    bool is_granted = false;
    pthread_mutex_lock(&grants_lock);
    for (int index = 0; index < UNPACKING_GRANTS && !is_granted; index++) {
        batch_grant *grant = &grants[index];
        if (grant->base_offset != work->header.base_offset || grant->size != work->header.size) continue;
        is_granted = grant->until_ns > now;
        grant->until_ns = 0;
    }
    pthread_mutex_unlock(&grants_lock);
    if (!is_granted) return false;
    atomic_fetch_add(&granted_count, 1);
    let_through.until_ns = now + let_through_ns;
    let_through.records = work->records;
    let_through.base_offset = work->header.base_offset;
    let_through.size = work->header.size;
    let_through.crc = work->crc;
    return true;
}

// MARK: Memory

/// What is unpacked between two looks at the heap, which take some microseconds each.
static const size_t portion = 4 << 20;
/// What goes on being unpacked when there is no room, lest anything stand still: so much at a time.
static const size_t small = 256 << 10;
static const int64_t small_every_ns = 50 * 1000000;
/// A broker's thread waits so long for room, and all partitions of that broker with it. The longer wait is librdkafka's, which
/// asks for that partition again after `fetch.error.backoff.ms`, half a second.
enum { steps = 5 };
static const int64_t step_ns = 10 * 1000000;
static const int64_t no_wait_ns = 500 * 1000000;

static _Atomic size_t unpacked_since;
static _Atomic bool is_full;
/// Until then nobody waits again (monotonic).
static _Atomic int64_t full_until_ns;
static __thread int64_t small_next_ns;
/// The small one that went on last: it may ask again for more.
static __thread const void *small_batch;

/// Whether so much more fits into the heap.
static bool fits(const caller_limits *limits, size_t more) {
    size_t limit = atomic_load_explicit(&limits->heap_bytes, memory_order_relaxed);
    struct mallinfo2 heap = mallinfo2();
    bool is_fit = heap.uordblks + heap.hblkhd <= limit && more <= limit - heap.uordblks - heap.hblkhd;
    atomic_store(&is_full, !is_fit);
    return is_fit;
}

bool has_room_for_batch(const caller_limits *limits, const batch_work *work, size_t buffer, size_t more) {
    size_t weight = buffer + more;
    if (!atomic_load_explicit(&is_full, memory_order_relaxed)) {
        size_t before = atomic_fetch_add_explicit(&unpacked_since, weight, memory_order_relaxed);
        if (before < portion && weight < portion - before) return true;
    }
    atomic_store_explicit(&unpacked_since, 0, memory_order_relaxed);
    if (fits(limits, more) || takes_grant(work)) return true;
    int64_t now = now_ns();
    if (weight <= small && (work->records == small_batch || now >= small_next_ns)) {
        small_batch = work->records;
        small_next_ns = now + small_every_ns;
        return true;
    }
    if (now >= atomic_load(&full_until_ns)) {
        for (int count = 0; count < steps; count++) {
            struct timespec step = {.tv_nsec = step_ns};
            nanosleep(&step, NULL);
            if (fits(limits, more)) return true;
        }
        atomic_store(&full_until_ns, now_ns() + no_wait_ns);
    }
    fail_batch(work, put_off);
    return false;
}
