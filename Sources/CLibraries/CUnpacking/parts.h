// What the files of this library have in common.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// A number as Kafka has it.
static inline uint64_t big_endian(const uint8_t *bytes, int count) {
    uint64_t number = 0;
    for (int index = 0; index < count; index++) number = number << 8 | bytes[index];
    return number;
}

static inline void set_big_endian(uint8_t *bytes, int count, uint64_t number) {
    for (int index = count - 1; index >= 0; index--, number >>= 8) bytes[index] = (uint8_t)number;
}

/// What a record batch has before its records (version 2), and where some of that is. Its checksum is over all from the
/// attributes on: not over its first offset, its length, its leader's epoch and its version ("magic").
enum {
    header_size = 61, length_at = 8, magic_at = 16, crc_at = 17, attributes_at = 21, last_delta_at = 23, count_at = 57,
    /// What its length does not count.
    length_behind = 12,
};

enum { no_codec = 0, gzip_codec = 1, snappy_codec = 2, lz4_codec = 3, zstd_codec = 4, codec_mask = 7, control_bit = 32 };

/// Whether the checksum of a whole batch of version 2, of `size` bytes, `header_size` at least, is that of its bytes.
bool is_intact(const uint8_t *batch, size_t size);

/// Whether the checksum of a message of version 0 or 1, of `size` bytes, `crc_at` at least, is that of its bytes.
bool is_intact_message(const uint8_t *message, size_t size);

/// Looks at a batch that is intact. One that is not compressed, or is of snappy, and whose records are not those of its
/// header, or would take too much memory, becomes one that cannot be unpacked.
void unpacking_check_batch(uint8_t *batch, size_t size, const void *caller);

/// Makes `size` bytes, `header_size` at least, a batch that cannot be unpacked, and that does not end before any offset that
/// was asked for: librdkafka goes no further than to it, says its first offset, and asks for it again. It is of snappy, of which
/// librdkafka alone knows that it failed, so that nobody believes the end in its header.
///
/// - base_offset: where it is said to begin.
void make_damaged(uint8_t *batch, size_t size, int64_t base_offset);

/// Whether `make_damaged` made it so.
bool is_made_damaged(const uint8_t *batch, size_t size);

/// The checksum of messages older than Kafka 0.11 (that of zip).
uint32_t crc32_ieee(const uint8_t *bytes, size_t size);

/// What a batch of snappy unpacks to, by Java's frames or without, as librdkafka counts it (snappy.c,
/// rd_kafka_snappy_java_uncompress); false: it cannot be unpacked.
bool snappy_size(const uint8_t *from, size_t size, size_t *unpacked);

/// Unpacks that to exactly `unpacked` bytes; false: it cannot be unpacked.
bool snappy_unpack(const uint8_t *from, size_t size, uint8_t *to, size_t unpacked);

/// Lets the calls of a function that the caller's library makes by this name lead to `ours`; where they led before is put into
/// `*real`. False: it makes none, or those of another library led elsewhere.
bool unpacking_redirect(const void *caller, const char *name, void *ours, _Atomic(void *) *real);
