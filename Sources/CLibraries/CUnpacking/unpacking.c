#define _GNU_SOURCE
#include "CUnpacking.h"
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

// MARK: Limits

/// A library whose calls are limited: where it is mapped, and how.
typedef struct {
    _Atomic uintptr_t start;
    /// 0: there is none.
    _Atomic size_t size;
    _Atomic size_t batch_bytes;
    _Atomic size_t heap_bytes;
} library;

static library libraries[UNPACKING_CALLERS];
static pthread_mutex_t libraries_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t too_large_count;
static _Atomic uint64_t put_off_count;

/// The limits of whoever calls; NULL: there are none.
static const library *limits_of(const void *caller) {
    for (int index = 0; index < UNPACKING_CALLERS; index++) {
        uintptr_t start = atomic_load_explicit(&libraries[index].start, memory_order_relaxed);
        if ((uintptr_t)caller - start < atomic_load_explicit(&libraries[index].size, memory_order_acquire)) {
            return &libraries[index];
        }
    }
    return NULL;
}

/// A function's library: what is sought, and what was found.
typedef struct {
    uintptr_t function;
    uintptr_t start;
    uintptr_t end;
} mapping;

static int find_mapping(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    mapping *found = data;
    uintptr_t start = UINTPTR_MAX, end = 0;
    for (int index = 0; index < info->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[index];
        if (part->p_type != PT_LOAD) continue;
        uintptr_t from = info->dlpi_addr + part->p_vaddr;
        if (from < start) start = from;
        if (from + part->p_memsz > end) end = from + part->p_memsz;
    }
    if (found->function < start || found->function >= end) return 0;
    found->start = start;
    found->end = end;
    return 1;
}

/// Whether the dynamic linker finds ours under this name before any other.
static bool is_ours(const char *name, const void *ours) {
    return dlsym(RTLD_DEFAULT, name) == ours;
}

bool unpacking_limit(size_t batch_bytes, size_t heap_bytes, const void *caller) {
    mapping found = {.function = (uintptr_t)caller};
    if (!dl_iterate_phdr(find_mapping, &found)) return false;
    pthread_mutex_lock(&libraries_lock);
    int place = 0;
    while (place < UNPACKING_CALLERS && libraries[place].size && libraries[place].start != found.start) place++;
    if (place < UNPACKING_CALLERS) {
        atomic_store(&libraries[place].batch_bytes, batch_bytes);
        atomic_store(&libraries[place].heap_bytes, heap_bytes);
        atomic_store(&libraries[place].start, found.start);
        atomic_store(&libraries[place].size, found.end - found.start);
    }
    pthread_mutex_unlock(&libraries_lock);
    if (place == UNPACKING_CALLERS) return false;
    // A library that has one of them built in needs none of ours, and then there is none to be found (or another's).
    return is_ours("ZSTD_decompress", ZSTD_decompress)
        && is_ours("ZSTD_getFrameContentSize", ZSTD_getFrameContentSize) && is_ours("LZ4F_decompress", LZ4F_decompress)
        && is_ours("LZ4F_createDecompressionContext", LZ4F_createDecompressionContext)
        && is_ours("inflate", inflate);
}

void unpacking_tune_malloc(void) {
    // Above what a fetch takes, whose buffer comes and goes all the time.
    mallopt(M_MMAP_THRESHOLD, 2 << 20);
    // As glibc has it when it raises the threshold itself.
    mallopt(M_TRIM_THRESHOLD, 4 << 20);
}

uint64_t unpacking_too_large_count(void) { return atomic_load(&too_large_count); }
uint64_t unpacking_put_off_count(void) { return atomic_load(&put_off_count); }

// MARK: Batches

enum { header_size = 61, gzip_codec = 1, lz4_codec = 3, zstd_codec = 4 };

static uint64_t big_endian(const uint8_t *bytes, int count) {
    uint64_t number = 0;
    for (int index = 0; index < count; index++) number = number << 8 | bytes[index];
    return number;
}

/// Reads the header before a batch's records, which librdkafka hands to the decompressors where they came from the network:
/// a response is one buffer, and what a broker says before the first batch of it has more than `header_size` bytes. False:
/// there is none (an older message format).
static bool read_header(const uint8_t *records, size_t size, int codec, unpacking_batch *batch) {
    const uint8_t *header = records - header_size;
    uint16_t attributes = (uint16_t)big_endian(header + 21, 2);
    int64_t base = (int64_t)big_endian(header, 8);
    int32_t last_delta = (int32_t)big_endian(header + 23, 4);
    if (header[16] != 2 || big_endian(header + 8, 4) != size + header_size - 12 || (attributes & 7) != codec) return false;
    if (base < 0 || last_delta < 0 || base > INT64_MAX - last_delta) return false;
    batch->base_offset = base;
    batch->last_offset = base + last_delta;
    batch->timestamp_ms = (int64_t)big_endian(header + 27, 8);
    batch->records = (int32_t)big_endian(header + 57, 4);
    batch->size = size;
    batch->is_too_large = false;
    return true;
}

/// A batch that is being unpacked.
typedef struct {
    unpacking_batch header;
    bool has_header;
    /// For its records, besides their bytes.
    size_t overhead;
    /// What it may unpack to.
    size_t allowed;
} work;

static work begin(const library *limits, const uint8_t *records, size_t size, int codec) {
    work work = {0};
    work.has_header = read_header(records, size, codec, &work.header);
    if (work.has_header && work.header.records > 0) {
        work.overhead = (size_t)work.header.records * UNPACKING_RECORD_BYTES;
    }
    size_t limit = atomic_load_explicit(&limits->batch_bytes, memory_order_relaxed);
    work.allowed = limit > work.overhead ? limit - work.overhead : 0;
    return work;
}

static pthread_mutex_t failures_lock = PTHREAD_MUTEX_INITIALIZER;
enum { failure_limit = 256 };
static unpacking_batch failures[failure_limit];
static size_t failure_count;

static bool is_same(const unpacking_batch *a, const unpacking_batch *b) {
    return a->base_offset == b->base_offset && a->size == b->size && a->last_offset == b->last_offset;
}

static void fail(const work *work, bool is_too_large) {
    if (is_too_large) atomic_fetch_add(&too_large_count, 1);
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    size_t place = 0;
    while (place < known && !is_same(&failures[place], &work->header)) place++;
    if (place == known) place = failure_count++ % failure_limit;
    failures[place] = work->header;
    failures[place].is_too_large = is_too_large;
    pthread_mutex_unlock(&failures_lock);
}

/// It did not fail after all.
static void forget(const work *work) {
    if (!work->has_header) return;
    pthread_mutex_lock(&failures_lock);
    for (size_t place = 0; place < failure_limit; place++) {
        if (is_same(&failures[place], &work->header)) failures[place].size = 0;
    }
    pthread_mutex_unlock(&failures_lock);
}

size_t unpacking_failures(int64_t base_offset, size_t size, unpacking_batch *found, size_t limit) {
    size_t count = 0;
    pthread_mutex_lock(&failures_lock);
    size_t known = failure_count < failure_limit ? failure_count : failure_limit;
    for (size_t place = 0; place < known && count < limit; place++) {
        if (failures[place].base_offset == base_offset && failures[place].size == size) found[count++] = failures[place];
    }
    pthread_mutex_unlock(&failures_lock);
    return count;
}

// MARK: Memory

/// What is unpacked between two looks at the heap, which take some microseconds each.
static const size_t portion = 4 << 20;
/// What goes on being unpacked when there is no room, lest anything stand still: so much at a time.
static const size_t small = 256 << 10;
static const int64_t small_every_ns = 50 * 1000000;
static const int64_t step_ns = 10 * 1000000;
static const int64_t wait_ns = 1000 * 1000000;

static _Atomic size_t unpacked_since;
static _Atomic bool is_full;
/// Until then nobody waits again (monotonic).
static _Atomic int64_t full_until_ns;
static __thread int64_t small_next_ns;
/// The small one that went on last: it may ask again for more.
static __thread const void *small_batch;

static int64_t now_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/// Whether so much more fits into the heap.
static bool fits(const library *limits, size_t more) {
    size_t limit = atomic_load_explicit(&limits->heap_bytes, memory_order_relaxed);
    struct mallinfo2 heap = mallinfo2();
    bool is_fit = heap.uordblks + heap.hblkhd <= limit && more <= limit - heap.uordblks - heap.hblkhd;
    atomic_store(&is_full, !is_fit);
    return is_fit;
}

/// Whether a batch may take so much now: `buffer` is allocated already, `more` is not. Waits for room. `batch`: its records.
static bool has_room(const library *limits, const void *batch, size_t buffer, size_t more) {
    size_t weight = buffer + more;
    if (!atomic_load_explicit(&is_full, memory_order_relaxed)) {
        size_t before = atomic_fetch_add_explicit(&unpacked_since, weight, memory_order_relaxed);
        if (before < portion && weight < portion - before) return true;
    }
    atomic_store_explicit(&unpacked_since, 0, memory_order_relaxed);
    if (fits(limits, more)) return true;
    int64_t now = now_ns();
    if (weight <= small && (batch == small_batch || now >= small_next_ns)) {
        small_batch = batch;
        small_next_ns = now + small_every_ns;
        return true;
    }
    if (now >= atomic_load(&full_until_ns)) {
        int64_t end = now + wait_ns;
        while ((now = now_ns()) < end) {
            struct timespec step = {.tv_nsec = step_ns};
            nanosleep(&step, NULL);
            if (fits(limits, more)) return true;
        }
        atomic_store(&full_until_ns, now + wait_ns);
    }
    atomic_fetch_add(&put_off_count, 1);
    return false;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

// MARK: The functions

/// The next library's function of this name, looked for once.
#define REAL(type, name)                                                                                              \
    static _Atomic(void *) known_##name;                                                                              \
    static type real_##name(void) {                                                                                   \
        void *function = atomic_load_explicit(&known_##name, memory_order_relaxed);                                   \
        if (!function) {                                                                                              \
            function = dlsym(RTLD_NEXT, #name);                                                                       \
            atomic_store_explicit(&known_##name, function, memory_order_relaxed);                                     \
        }                                                                                                             \
        return (type)function;                                                                                        \
    }

typedef size_t (*zstd_decompress)(void *, size_t, const void *, size_t);
typedef unsigned long long (*zstd_content_size)(const void *, size_t);
REAL(zstd_decompress, ZSTD_decompress)
REAL(zstd_content_size, ZSTD_getFrameContentSize)

/// zstd_errors.h, lz4frame.h, zlib.h.
enum { zstd_memory = 64, zstd_too_small = 70, zstd_last_error = 120, lz4_memory = 9, lz4_last_error = 64 };
enum { zlib_buffer = -5, zlib_memory = -4 };
static const unsigned long long zstd_unknown_size = -1ull, zstd_no_size = -2ull;
/// Where librdkafka goes no further: it makes its buffer larger until `receive.message.max.bytes`, which is more than this.
static const size_t zstd_least_last = 1 << 20;

/// librdkafka asks this first, and goes no further with a batch that says to be larger than `receive.message.max.bytes`.
__attribute__((noinline)) unsigned long long ZSTD_getFrameContentSize(const void *from, size_t size) {
    if (!real_ZSTD_getFrameContentSize()) return zstd_no_size;
    unsigned long long content = real_ZSTD_getFrameContentSize()(from, size);
    const library *limits = limits_of(__builtin_return_address(0));
    if (!limits) return content;
    if (content == zstd_unknown_size || content < zstd_least_last) return content;
    work work = begin(limits, from, size, zstd_codec);
    if (content == zstd_no_size || content <= work.allowed) {
        fail(&work, false);
        return content;
    }
    fail(&work, true);
    return zstd_no_size;
}

__attribute__((noinline)) size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size) {
    if (!real_ZSTD_decompress()) return (size_t)-zstd_memory;
    const library *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real_ZSTD_decompress()(to, capacity, from, size);
    work work = begin(limits, from, size, zstd_codec);
    if (work.allowed == 0) {
        fail(&work, true);
        return (size_t)-zstd_memory;
    }
    if (capacity >= zstd_least_last) forget(&work);
    size_t most = least(capacity, work.allowed);
    if (!has_room(limits, from, most, work.overhead)) return (size_t)-zstd_memory;
    size_t result = real_ZSTD_decompress()(to, most, from, size);
    if (result < (size_t)-zstd_last_error) return result;
    if (result != (size_t)-zstd_too_small) {
        fail(&work, false);
    } else if (most < capacity) {
        fail(&work, true);
        return (size_t)-zstd_memory;
    } else if (capacity >= zstd_least_last) {
        fail(&work, false);
    }
    return result;
}

/// The frame that this thread unpacks; librdkafka unpacks one after the other.
static __thread struct {
    work work;
    const void *start;
    size_t done;
    bool has_begun;
} frame;

typedef size_t (*lz4_create)(void **, unsigned);
typedef size_t (*lz4_decompress)(void *, void *, size_t *, const void *, size_t *, const void *);
REAL(lz4_create, LZ4F_createDecompressionContext)
REAL(lz4_decompress, LZ4F_decompress)

size_t LZ4F_createDecompressionContext(void **context, unsigned version) {
    frame.has_begun = false;
    if (!real_LZ4F_createDecompressionContext()) return (size_t)-lz4_memory;
    return real_LZ4F_createDecompressionContext()(context, version);
}

/// The frame's header was read before, by another function: it has 7 to 19 bytes (lz4 frame format).
static work begin_frame(const library *limits, const uint8_t *from, size_t size) {
    work work = {0};
    for (size_t header = 7; header <= 19 && !work.has_header; header++) {
        work = begin(limits, from - header, size + header, lz4_codec);
    }
    return work;
}

__attribute__((noinline)) size_t LZ4F_decompress(
    void *context, void *to, size_t *to_size, const void *from, size_t *from_size, const void *options) {
    lz4_decompress real = real_LZ4F_decompress();
    if (!real) return (size_t)-lz4_memory;
    const library *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real(context, to, to_size, from, from_size, options);
    if (!frame.has_begun) {
        frame.work = begin_frame(limits, from, *from_size);
        frame.start = from;
        frame.done = 0;
        frame.has_begun = true;
    }
    size_t left = frame.work.allowed - frame.done;
    size_t more = frame.done == 0 ? frame.work.overhead : 0;
    if (!has_room(limits, frame.start, least(*to_size, left), more)) return (size_t)-lz4_memory;
    if (*to_size > left) *to_size = left;
    size_t result = left > 0 ? real(context, to, to_size, from, from_size, options) : 1;
    if (result > (size_t)-lz4_last_error) {
        fail(&frame.work, false);
        return result;
    }
    frame.done += *to_size;
    if (result > 0 && frame.done == frame.work.allowed) {
        fail(&frame.work, true);
        return (size_t)-lz4_memory;
    }
    return result;
}

/// As `frame`, of gzip.
static __thread work gzip;

typedef int (*zlib_inflate)(unpacking_stream *, int);
REAL(zlib_inflate, inflate)

__attribute__((noinline)) int inflate(unpacking_stream *stream, int flush) {
    zlib_inflate real = real_inflate();
    if (!real) return zlib_memory;
    const library *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real(stream, flush);
    if (stream->total_in == 0) {
        gzip = begin(limits, stream->next_in, stream->avail_in, gzip_codec);
        // The first of two passes only counts, in a small buffer: it decides whether there is a second.
        if (!has_room(limits, stream->next_in, stream->avail_out, gzip.overhead)) return zlib_memory;
    }
    if (stream->total_out > gzip.allowed || gzip.allowed == 0) {
        fail(&gzip, true);
        return zlib_memory;
    }
    int result = real(stream, flush);
    if (result < 0 && result != zlib_buffer) fail(&gzip, false);
    return result;
}
