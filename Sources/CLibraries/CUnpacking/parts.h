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

/// What a record batch has before its records (version 2).
enum { header_size = 61 };

/// Looks at a whole batch of version 2, of `size` bytes, `header_size` at least. One that is not compressed, or is of
/// snappy, and whose records are not those of its header, or would take too much memory, becomes one that cannot be unpacked.
void unpacking_check_batch(uint8_t *batch, size_t size, const void *caller);

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
