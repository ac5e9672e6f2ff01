// Records of a batch, looked at one by one, and batches that are made unreadable.
#define _GNU_SOURCE
#include "CUnpacking.h"
#include "batches.h"
#include "parts.h"
#include <stdlib.h>
#include <string.h>

/// A signed number of at most `bytes` bytes, as Kafka's records have it (zigzag, seven bits a byte); moves `*at` behind it. False:
/// there is none, or it is longer than such a number may be, which Java and librdkafka read as different numbers.
static bool read_number(const uint8_t **at, const uint8_t *end, int bytes, int64_t *number) {
    uint64_t bits = 0;
    for (int index = 0; index < bytes; index++) {
        if (*at == end) return false;
        uint8_t byte = *(*at)++;
        int shift = 7 * index;
        // The last byte has what is left of 32 or 64 bits.
        if (index == bytes - 1 && byte >> (bytes == 5 ? 4 : 1)) return false;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80)) {
            *number = (int64_t)(bits >> 1) ^ -(int64_t)(bits & 1);
            return true;
        }
    }
    return false;
}

/// A length of 32 bits and so many bytes; -1, where there may be nothing: none.
static bool skip_bytes(const uint8_t **at, const uint8_t *end, bool may_be_missing) {
    int64_t length;
    if (!read_number(at, end, 5, &length)) return false;
    if (length == -1 && may_be_missing) return true;
    if (length < 0 || length > end - *at) return false;
    *at += length;
    return true;
}

/// Whether these are the records that the batch's header tells of, whole, one behind the other, their offsets ascending: of
/// anything else librdkafka makes other records than Java, stops without a word, or ends the process
/// (rdkafka_msgset_reader.c). A broker does not look at all of it.
static bool are_records(const batch_work *work, const uint8_t *at, size_t size) {
    const uint8_t *end = at + size;
    int64_t before = -1;
    int64_t last = work->header.last_offset - work->header.base_offset;
    int32_t count = 0;
    for (; at < end; count++) {
        int64_t length, number;
        if (!read_number(&at, end, 5, &length) || length < 1 || length > end - at) return false;
        const uint8_t *record_end = at + length;
        at++; // attributes
        if (!read_number(&at, record_end, 10, &number)) return false;
        if (!read_number(&at, record_end, 5, &number) || number <= before || number > last) return false;
        before = number;
        if (!skip_bytes(&at, record_end, true) || !skip_bytes(&at, record_end, true)) return false;
        int64_t headers;
        if (!read_number(&at, record_end, 5, &headers) || headers < 0) return false;
        // librdkafka reads them when they are asked for; those that it cannot read are the record's trouble alone.
        at = record_end;
    }
    return count == work->header.records;
}

bool is_whole_batch(const batch_work *work, const void *bytes, size_t size) {
    if (!work->has_header || are_records(work, bytes, size)) return true;
    fail_batch(work, damaged);
    return false;
}

// MARK: Batches that librdkafka unpacks alone

bool is_intact(const uint8_t *batch, size_t size) {
    return unpacking_crc32c(batch + attributes_at, size - attributes_at) == big_endian(batch + crc_at, 4);
}

bool is_intact_message(const uint8_t *message, size_t size) {
    return crc32_ieee(message + magic_at, size - magic_at) == big_endian(message + length_behind, 4);
}

static void set_checksum(uint8_t *batch, size_t size) {
    set_big_endian(batch + crc_at, 4, unpacking_crc32c(batch + attributes_at, size - attributes_at));
}

/// Makes an intact batch one of gzip that cannot be unpacked: librdkafka hands up what is before it, says its offset, and asks
/// for it again. It is known as of now, since that librdkafka may have its decompressors built in.
static void spoil(batch_work *work, uint8_t *batch, size_t size, batch_outcome outcome) {
    work->header.is_as_written = true;
    batch[attributes_at + 1] = (batch[attributes_at + 1] & ~codec_mask) | gzip_codec;
    if (size >= header_size + spoiled_size) {
        batch[header_size] = 0;
        batch[header_size + 1] = (outcome == too_large ? spoiled_as_too_large : 0) | spoiled_as_written;
    }
    set_checksum(batch, size);
    work->crc = (uint32_t)big_endian(batch + crc_at, 4);
    remember_batch(work, outcome);
}

/// What its records begin with then: a size of more than 32 bits, or of which the end is missing.
enum { damaged_size = 5 };

void make_damaged(uint8_t *batch, size_t size, int64_t base_offset) {
    set_big_endian(batch, 8, (uint64_t)base_offset);
    set_big_endian(batch + length_at, 4, size - length_behind);
    batch[magic_at] = 2;
    set_big_endian(batch + attributes_at, 2, snappy_codec);
    // librdkafka passes over what ends below the offset that it asked for.
    set_big_endian(batch + last_delta_at, 4, INT32_MAX);
    memset(batch + header_size, 0xFF, least(size - header_size, damaged_size));
    set_checksum(batch, size);
}

bool is_made_damaged(const uint8_t *batch, size_t size) {
    size_t unpacked;
    return big_endian(batch + attributes_at, 2) == snappy_codec && big_endian(batch + last_delta_at, 4) == INT32_MAX
        && !snappy_size(batch + header_size, size - header_size, &unpacked);
}

void unpacking_check_batch(uint8_t *batch, size_t size, const void *caller) {
    const caller_limits *limits = limits_of(caller);
    uint16_t attributes = (uint16_t)big_endian(batch + attributes_at, 2);
    int codec = attributes & codec_mask;
    if (!limits || (codec != no_codec && codec != snappy_codec) || attributes & control_bit) return;
    const uint8_t *records = batch + header_size;
    size_t records_size = size - header_size, unpacked = records_size;
    batch_work work = begin_batch(limits, records, records_size, codec);
    if (!work.has_header) return;
    // Where it cannot be unpacked, librdkafka says so itself.
    if (codec == snappy_codec && !snappy_size(records, records_size, &unpacked)) return;
    if (unpacked > work.allowed) return spoil(&work, batch, size, too_large);
    uint8_t *buffer = NULL;
    if (codec == snappy_codec) {
        buffer = malloc(unpacked + 1);
        if (!buffer || !snappy_unpack(records, records_size, buffer, unpacked)) return free(buffer);
        records = buffer;
    }
    bool is_good = are_records(&work, records, unpacked);
    free(buffer);
    if (!is_good) spoil(&work, batch, size, damaged);
}
