// The header of a batch that is being unpacked, and how it went with the last ones.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "batches.h"
#include "parts.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Whether the page of this address can be read. The kernel looks at the set of signals before it refuses what to do with it.
static bool is_readable(uintptr_t address) {
    return syscall(SYS_rt_sigprocmask, -1, address & ~(uintptr_t)7, NULL, 8) == 0 || errno != EFAULT;
}

/// Reads the header before a batch's records, which librdkafka hands to the decompressors where they came from the network:
/// a response is one buffer, and what a broker says before the first batch of it has more than `header_size` bytes. A message
/// of an older format may come from the beginning of another buffer, though, with nothing before it. False: there is none.
static bool read_header(const uint8_t *records, size_t size, int codec, batch_work *work) {
    const uint8_t *header = records - header_size;
    // A page has at least 4096 bytes.
    if (((uintptr_t)header ^ (uintptr_t)records) >> 12 && !is_readable((uintptr_t)header)) return false;
    uint16_t attributes = (uint16_t)big_endian(header + 21, 2);
    int64_t base = (int64_t)big_endian(header, 8);
    int32_t last_delta = (int32_t)big_endian(header + 23, 4);
    if (header[16] != 2 || big_endian(header + 8, 4) != size + header_size - 12 || (attributes & 7) != codec) return false;
    if (base < 0 || last_delta < 0 || base > INT64_MAX - last_delta) return false;
    work->header.base_offset = base;
    work->header.last_offset = base + last_delta;
    work->header.timestamp_ms = (int64_t)big_endian(header + 27, 8);
    work->header.records = (int32_t)big_endian(header + 57, 4);
    work->header.size = size;
    work->crc = (uint32_t)big_endian(header + 17, 4);
    return true;
}

batch_work begin_batch(const caller_limits *limits, const uint8_t *records, size_t size, int codec) {
    batch_work work = {.records = records};
    work.has_header = read_header(records, size, codec, &work);
    if (work.has_header && work.header.records > 0) {
        work.overhead = (size_t)work.header.records * UNPACKING_RECORD_BYTES;
    }
    size_t limit = atomic_load_explicit(&limits->batch_bytes, memory_order_relaxed);
    work.allowed = limit > work.overhead ? limit - work.overhead : 0;
    return work;
}

/// How it went with a batch, the last time.
typedef struct {
    unpacking_batch batch;
    uint32_t crc;
    batch_outcome outcome;
    int64_t at_ns;
} batch_failure;

static _Atomic uint64_t too_large_count;
static _Atomic uint64_t put_off_count;

uint64_t unpacking_too_large_count(void) { return atomic_load(&too_large_count); }
uint64_t unpacking_put_off_count(void) { return atomic_load(&put_off_count); }

static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;
enum { failure_limit = 256 };
static batch_failure failures[failure_limit];
static size_t failure_count;

static bool is_of(const batch_failure *failure, const batch_work *work) {
    return failure->batch.base_offset == work->header.base_offset && failure->batch.size == work->header.size
        && failure->batch.last_offset == work->header.last_offset && failure->crc == work->crc;
}

void remember_batch(const batch_work *work, batch_outcome outcome) {
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    size_t index = 0;
    while (index < known && !is_of(&failures[index], work)) index++;
    if (index == known) index = failure_count++ % failure_limit;
    failures[index] = (batch_failure){work->header, work->crc, outcome, now_ns()};
    failures[index].batch.is_too_large = outcome == too_large;
    pthread_mutex_unlock(&failures_lock);
}

void fail_batch(const batch_work *work, batch_outcome outcome) {
    if (outcome == too_large) atomic_fetch_add(&too_large_count, 1);
    if (outcome == put_off) atomic_fetch_add(&put_off_count, 1);
    remember_batch(work, outcome);
}

void forget_batch(const batch_work *work) {
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    for (size_t index = 0; index < failure_limit; index++) {
        // What librdkafka says of one that was put off may not be read yet.
        if (is_of(&failures[index], work) && failures[index].outcome != put_off) failures[index].batch.size = 0;
    }
    pthread_mutex_unlock(&failures_lock);
}

size_t unpacking_failures(
    int64_t base_offset, size_t size, int64_t age_ns, unpacking_batch *found, size_t limit, bool *is_put_off) {
    size_t count = 0;
    *is_put_off = false;
    int64_t now = now_ns();
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    for (size_t index = 0; index < known; index++) {
        const batch_failure *failure = &failures[index];
        if (failure->batch.base_offset != base_offset || failure->batch.size != size) continue;
        if (now - failure->at_ns > age_ns) continue;
        if (failure->outcome == put_off) *is_put_off = true;
        else if (count < limit) found[count++] = failure->batch;
    }
    pthread_mutex_unlock(&failures_lock);
    return count;
}
