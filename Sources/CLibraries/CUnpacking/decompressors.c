// Functions that stand in the place of zstd's, lz4's and zlib's, for calls of librdkafka.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "batches.h"
#include "parts.h"
#include <dlfcn.h>

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
enum { zstd_corrupted = 20, zstd_memory = 64, zstd_too_small = 70, zstd_last_error = 120, lz4_memory = 9, lz4_last_error = 64 };
enum { zlib_buffer = -5, zlib_memory = -4, zlib_data = -3, zlib_end = 1, zlib_needs_dictionary = 2 };
static const unsigned long long zstd_unknown_size = -1ull, zstd_no_size = -2ull;
/// Where librdkafka goes no further: it makes its buffer larger until `receive.message.max.bytes`, which is more than this.
static const size_t zstd_least_last = 1 << 20;

/// librdkafka asks this first, and goes no further with a batch that says to be larger than `receive.message.max.bytes`.
__attribute__((noinline)) unsigned long long ZSTD_getFrameContentSize(const void *from, size_t size) {
    if (!real_ZSTD_getFrameContentSize()) return zstd_no_size;
    unsigned long long content = real_ZSTD_getFrameContentSize()(from, size);
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return content;
    if (content == zstd_unknown_size || content < zstd_least_last) return content;
    batch_work work = begin_batch(limits, from, size, zstd_codec);
    if (content == zstd_no_size) fail_batch(&work, damaged);
    // It is unpacked next, since `receive.message.max.bytes` is more.
    if (content == zstd_no_size || content <= work.allowed) return content;
    fail_batch(&work, too_large);
    return zstd_no_size;
}

__attribute__((noinline)) size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size) {
    if (!real_ZSTD_decompress()) return (size_t)-zstd_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real_ZSTD_decompress()(to, capacity, from, size);
    batch_work work = begin_batch(limits, from, size, zstd_codec);
    if (work.allowed == 0) {
        fail_batch(&work, too_large);
        return (size_t)-zstd_memory;
    }
    if (capacity >= zstd_least_last) forget_batch(&work);
    size_t most = least(capacity, work.allowed);
    if (!has_room_for_batch(limits, &work, most, work.overhead)) return (size_t)-zstd_memory;
    size_t result = real_ZSTD_decompress()(to, most, from, size);
    if (result < (size_t)-zstd_last_error) return is_whole_batch(&work, to, result) ? result : (size_t)-zstd_corrupted;
    // No memory for zstd itself says nothing of the batch.
    if (result == (size_t)-zstd_memory) return result;
    if (result != (size_t)-zstd_too_small) {
        fail_batch(&work, damaged);
    } else if (most < capacity) {
        fail_batch(&work, too_large);
        return (size_t)-zstd_memory;
    } else if (capacity >= zstd_least_last) {
        fail_batch(&work, damaged);
    }
    return result;
}

/// The frame that this thread unpacks; librdkafka unpacks one after the other.
static __thread struct {
    batch_work work;
    size_t done;
    bool has_begun;
    /// For all of it.
    bool has_room;
} frame;

/// The beginning of LZ4F_frameInfo_t.
typedef struct {
    uint32_t block_size, block_mode, has_checksum, type;
    /// 0: the frame does not say.
    uint64_t content_size;
} lz4_info;

typedef size_t (*lz4_create)(void **, unsigned);
typedef size_t (*lz4_get_info)(void *, void *, const void *, size_t *);
typedef size_t (*lz4_decompress)(void *, void *, size_t *, const void *, size_t *, const void *);
REAL(lz4_create, LZ4F_createDecompressionContext)
REAL(lz4_get_info, LZ4F_getFrameInfo)
REAL(lz4_decompress, LZ4F_decompress)

static size_t fail_frame(batch_outcome outcome) {
    fail_batch(&frame.work, outcome);
    return (size_t)-lz4_memory;
}

/// No memory for lz4 itself says nothing of the batch.
static bool is_damage(size_t result) {
    return result > (size_t)-lz4_last_error && result != (size_t)-lz4_memory;
}

size_t LZ4F_createDecompressionContext(void **context, unsigned version) {
    frame.has_begun = false;
    if (!real_LZ4F_createDecompressionContext()) return (size_t)-lz4_memory;
    return real_LZ4F_createDecompressionContext()(context, version);
}

/// librdkafka asks this first, and takes what the frame says to be large at once, where that can be: it grows 255 times at most.
__attribute__((noinline)) size_t LZ4F_getFrameInfo(void *context, void *info, const void *from, size_t *from_size) {
    lz4_get_info real = real_LZ4F_getFrameInfo();
    if (!real) return (size_t)-lz4_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits || frame.has_begun) return real(context, info, from, from_size);
    size_t size = *from_size;
    frame.work = begin_batch(limits, from, size, lz4_codec);
    frame.done = 0;
    frame.has_begun = true;
    frame.has_room = false;
    if (frame.work.allowed == 0) return fail_frame(too_large);
    size_t result = real(context, info, from, from_size);
    if (is_damage(result)) fail_batch(&frame.work, damaged);
    if (result > (size_t)-lz4_last_error) return result;
    uint64_t content = ((const lz4_info *)info)->content_size;
    if (content == 0 || content / 255 > size) return result;
    if (content > frame.work.allowed) return fail_frame(too_large);
    frame.has_room = has_room_for_batch(limits, &frame.work, 0, content + frame.work.overhead);
    return frame.has_room ? result : (size_t)-lz4_memory;
}

__attribute__((noinline)) size_t LZ4F_decompress(
    void *context, void *to, size_t *to_size, const void *from, size_t *from_size, const void *options) {
    lz4_decompress real = real_LZ4F_decompress();
    if (!real) return (size_t)-lz4_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits || !frame.has_begun) return real(context, to, to_size, from, from_size, options);
    size_t left = frame.work.allowed - frame.done;
    if (left == 0) return fail_frame(too_large);
    size_t more = frame.done == 0 ? frame.work.overhead : 0;
    if (!frame.has_room && !has_room_for_batch(limits, &frame.work, least(*to_size, left), more)) return (size_t)-lz4_memory;
    if (*to_size > left) *to_size = left;
    size_t given = *from_size;
    size_t result = real(context, to, to_size, from, from_size, options);
    if (is_damage(result)) fail_batch(&frame.work, damaged);
    if (result > (size_t)-lz4_last_error) return result;
    frame.done += *to_size;
    if (result > 0 && frame.done == frame.work.allowed) return fail_frame(too_large);
    // The frame ends. librdkafka has all of it in one buffer, in which this was the last.
    if (result == 0) {
        if (*from_size < given) return fail_frame(damaged);
        if (!is_whole_batch(&frame.work, (const uint8_t *)to + *to_size - frame.done, frame.done)) return (size_t)-lz4_memory;
    }
    return result;
}

/// As `frame`, of gzip.
static __thread batch_work gzip;

typedef int (*zlib_inflate)(unpacking_stream *, int);
REAL(zlib_inflate, inflate)

__attribute__((noinline)) int inflate(unpacking_stream *stream, int flush) {
    zlib_inflate real = real_inflate();
    if (!real) return zlib_memory;
    const caller_limits *limits = limits_of(__builtin_return_address(0));
    if (!limits) return real(stream, flush);
    bool is_first = stream->total_in == 0;
    if (is_first) gzip = begin_batch(limits, stream->next_in, stream->avail_in, gzip_codec);
    if (stream->total_out > gzip.allowed || gzip.allowed == 0) {
        fail_batch(&gzip, too_large);
        return zlib_memory;
    }
    // `spoil` made it so.
    if (is_first && gzip.has_header && stream->avail_in >= spoiled_size && stream->next_in[0] == 0
        && is_intact(stream->next_in - header_size, header_size + stream->avail_in)) {
        gzip.header.is_as_written = stream->next_in[1] & spoiled_as_written;
        fail_batch(&gzip, stream->next_in[1] & spoiled_as_too_large ? too_large : damaged);
        return zlib_data;
    }
    // The first of two passes only counts, in a small buffer: it decides whether there is a second.
    if (is_first && !has_room_for_batch(limits, &gzip, stream->avail_out, gzip.overhead)) return zlib_memory;
    const uint8_t *to = stream->next_out;
    int result = real(stream, flush);
    // Java's unpacks all members of a file, librdkafka the first, and stops at an assertion where that is empty.
    if (result == zlib_end && stream->avail_in > 0) {
        fail_batch(&gzip, damaged);
        return zlib_data;
    }
    // In the pass that is not for counting all comes at once.
    if (result == zlib_end && is_first && !is_whole_batch(&gzip, to, stream->total_out)) return zlib_data;
    // All that there is was given, and there was room for more.
    bool is_cut = result != zlib_end && stream->avail_out > 0;
    bool is_failed = (result < 0 && result != zlib_buffer) || result == zlib_needs_dictionary || is_cut;
    // No memory for zlib itself says nothing of the batch.
    if (is_failed && result != zlib_memory) fail_batch(&gzip, damaged);
    return is_cut && result != zlib_memory ? zlib_data : result;
}
