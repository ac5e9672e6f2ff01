// A batch that is being unpacked, what it may take, and what became of it: shared by the files that unpack.
#pragma once
#include "CUnpacking.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A library whose calls are limited: where it is mapped, and how.
typedef struct {
    _Atomic uintptr_t start;
    /// 0: there is none.
    _Atomic size_t size;
    _Atomic size_t batch_bytes;
    _Atomic size_t heap_bytes;
} caller_limits;

/// The limits of whoever calls; NULL: there are none.
const caller_limits *limits_of(const void *caller);

/// A batch that is being unpacked.
typedef struct {
    /// Where its records are.
    const void *records;
    unpacking_batch header;
    bool has_header;
    /// The checksum that its header gives: together with the rest, which batch it is.
    uint32_t crc;
    /// For its records, besides their bytes.
    size_t overhead;
    /// What it may unpack to.
    size_t allowed;
} batch_work;

typedef enum { damaged, too_large, put_off } batch_outcome;

/// The beginning of the records of a batch that is not to be read: a byte that no gzip begins with, and one of these bits.
enum { spoiled_as_too_large = 1, spoiled_as_written = 2, spoiled_size = 2 };

/// Begins a batch of so many bytes of records.
batch_work begin_batch(const caller_limits *limits, const uint8_t *records, size_t size, int codec);

/// Counts and remembers how it went, for `unpacking_failures`.
void fail_batch(const batch_work *work, batch_outcome outcome);

/// The same, and does not count it.
void remember_batch(const batch_work *work, batch_outcome outcome);

/// It did not fail after all.
void forget_batch(const batch_work *work);

/// Whether what a batch was unpacked to is what its header says; of those whose header is not known nothing is.
bool is_whole_batch(const batch_work *work, const void *bytes, size_t size);

/// Whether a batch may take so much now: `buffer` is allocated already, `more` is not. Waits a little for room, and puts the
/// batch off where there is none. What can never be unpacked is to be known before.
bool has_room_for_batch(const caller_limits *limits, const batch_work *work, size_t buffer, size_t more);

/// Monotonic.
int64_t now_ns(void);

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }
