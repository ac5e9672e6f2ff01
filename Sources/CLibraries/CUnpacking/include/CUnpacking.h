// Limits to what librdkafka unpacks. It decompresses whole record batches on its broker threads, each into one buffer as large
// as the batch asks for, and has no limit to what all of them hold together. The decompressors are other libraries' (zstd,
// lz4, zlib), so the functions of these names in the executable come before theirs (ELF symbol preemption): they ask the
// limits, and call the real ones.
//
// Snappy is a part of librdkafka, what is not compressed is not unpacked, and nobody looks at checksums. So batches are looked at
// where they come from the network: a response is read into one buffer, in which one that is not to be read becomes one that
// cannot be unpacked, so that librdkafka fails at it as at any other.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// The limits from now on; before, there are none.
///
/// - batch_bytes: what one batch may take, unpacked and with `UNPACKING_RECORD_BYTES` for each of its records.
/// - heap_bytes: while more than that is allocated (mallinfo2(3)), a large batch waits, some 50 ms at most (librdkafka's thread
///   waits with it), and is then refused for now; librdkafka asks for it again half a second later.
/// - caller: the address of any function of the library whose calls are limited. Those of others are not.
///
/// At most `UNPACKING_CALLERS` libraries can have limits, each its own.
///
/// Returns false where they are not in force (`unpacking_is_reached`).
bool unpacking_limit(size_t batch_bytes, size_t heap_bytes, const void *caller);

/// Whether the decompressors that the caller's library calls are those below: each by its name, which leads here. Not so where
/// it has one of them built in.
bool unpacking_is_reached(const void *caller);

/// Which connections' responses are looked at.
typedef struct {
    bool plain;
    bool tls;
} unpacking_watch;

/// Looks at the responses that the caller's library receives from now on, where it receives them with recvmsg(2) or SSL_read(3)
/// of another library: these calls of it, and no other's, come here first. What is looked for has the limits of
/// `unpacking_limit`. Before the library's first thread is started: where names are bound when they are first called, a thread
/// that calls one for the first time just then may undo it. That, and a library that receives in other pieces, shows in
/// `unpacking_fetch_count`.
unpacking_watch unpacking_watch_responses(const void *caller);

/// How many responses to Fetch with a batch in them were received whole by those. Once records have come and this is 0,
/// nothing is looked at.
uint64_t unpacking_fetch_count(void);

/// Looks at one, from behind the number of its request on. The batches of a response to Fetch (versions 4 to 17) become such
/// that cannot be unpacked
/// - where their checksum is not that of their bytes, whatever their codec, or their first offset cannot be theirs: their end is
///   not known then, and what follows in that partition is not looked at, since librdkafka goes no further;
/// - where they are intact, and not compressed or of snappy, and not what their header says, or too large.
/// Returns whether it is one with a batch, of whichever codec.
bool unpacking_check_response(uint8_t *bytes, size_t size, const void *caller);

#define UNPACKING_CALLERS 3

/// What librdkafka 2.0.2 allocates for each record, besides its bytes.
#define UNPACKING_RECORD_BYTES 320

/// Gives large buffers back to the system when they are freed (mallopt(3): those of 2 MiB and more are mapped, and the limit
/// does not rise any more). Before the first thread is started.
void unpacking_tune_malloc(void);

/// A batch that cannot be unpacked, as its header says (Kafka's record batch, version 2).
typedef struct {
    int64_t base_offset;
    int64_t last_offset;
    /// Milliseconds since the epoch; -1: none.
    int64_t timestamp_ms;
    int32_t records;
    /// Its records as they stand in the log, compressed.
    size_t size;
    /// It would take more than a batch may. False: it is damaged, or something else is wrong.
    bool is_too_large;
    /// It came as it was written: its checksum says so, and it will never be another. Else it was not looked at.
    bool is_as_written;
} unpacking_batch;

/// The batches that could not be unpacked within `age_ns` with this offset and size, at most `limit`; the newest 256 of all
/// are known. Several where partitions have batches alike. `is_put_off`: one of those was refused for now, and it may be that
/// one that is asked about.
size_t unpacking_failures(
    int64_t base_offset, size_t size, int64_t age_ns, unpacking_batch *found, size_t limit, bool *is_put_off);

/// Lets a batch with this offset and size be unpacked within `for_ns`, once, whatever is allocated: what a topic has in reserve.
/// `UNPACKING_GRANTS` are in force at most; one more ends the one that would end first.
void unpacking_grant(int64_t base_offset, size_t size, int64_t for_ns);
#define UNPACKING_GRANTS 256

/// How often a batch was unpacked by such a grant.
uint64_t unpacking_granted_count(void);

/// How often a batch was refused because it is too large.
uint64_t unpacking_too_large_count(void);
/// How often a batch was refused for now, because of `heap_bytes`.
uint64_t unpacking_put_off_count(void);

/// The checksum of a batch, CRC-32C (Castagnoli's polynomial, RFC 3720), by the processor's instruction where it has one.
uint32_t unpacking_crc32c(const uint8_t *bytes, size_t size);
/// The same as where it has none.
uint32_t unpacking_crc32c_by_table(const uint8_t *bytes, size_t size);
bool unpacking_has_crc32c(void);

// The functions that are limited, as their libraries declare them (zstd.h, lz4frame.h, zlib.h).

unsigned long long ZSTD_getFrameContentSize(const void *from, size_t size);
size_t ZSTD_decompress(void *to, size_t capacity, const void *from, size_t size);
size_t LZ4F_createDecompressionContext(void **context, unsigned version);
size_t LZ4F_getFrameInfo(void *context, void *info, const void *from, size_t *from_size);
size_t LZ4F_decompress(
    void *context, void *to, size_t *to_size, const void *from, size_t *from_size, const void *options);

/// The beginning of zlib's z_stream.
typedef struct {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
} unpacking_stream;

int inflate(unpacking_stream *stream, int flush);
