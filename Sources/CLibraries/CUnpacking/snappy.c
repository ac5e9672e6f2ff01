#include "parts.h"
#include <string.h>

/// What snappy-java puts before its blocks, each of which has its length before it.
enum { frame_header = 16 };
static const uint8_t magic[8] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0};

static bool is_framed(const uint8_t *from, size_t size) {
    return size > frame_header + 4 && memcmp(from, magic, sizeof(magic)) == 0;
}

/// What the next block, or all, unpacks to (seven bits a byte, 32 in all); moves `*at` behind that number.
static bool read_size(const uint8_t **at, const uint8_t *end, size_t *size) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        if (*at == end) return false;
        uint8_t byte = *(*at)++;
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80) continue;
        *size = bits;
        return bits <= UINT32_MAX;
    }
    return false;
}

/// Unpacks one block, as snappy's format description has it: literals, and copies of what was unpacked before.
static bool unpack_block(const uint8_t *at, const uint8_t *end, uint8_t *to, size_t unpacked) {
    size_t size, done = 0;
    if (!read_size(&at, end, &size) || size != unpacked) return false;
    while (at < end) {
        uint8_t tag = *at++;
        size_t length = (tag >> 2) + 1, offset = 0;
        size_t extra = (tag & 3) == 0 ? (length > 60 ? length - 60 : 0) : (tag & 3) == 3 ? 4 : tag & 3;
        if (extra > (size_t)(end - at)) return false;
        uint32_t number = 0;
        for (size_t index = 0; index < extra; index++) number |= (uint32_t)at[index] << 8 * index;
        at += extra;
        switch (tag & 3) {
        case 0:
            if (extra > 0) length = (size_t)number + 1;
            if (length > (size_t)(end - at) || length > size - done) return false;
            memcpy(to + done, at, length);
            at += length;
            done += length;
            continue;
        case 1:
            length = (tag >> 2 & 7) + 4;
            offset = (size_t)(tag >> 5) << 8 | number;
            break;
        default: offset = number;
        }
        if (offset == 0 || offset > done || length > size - done) return false;
        // It may reach into what it makes.
        for (const uint8_t *from = to + done - offset; length > 0; length--) to[done++] = *from++;
    }
    return done == size;
}

bool snappy_size(const uint8_t *from, size_t size, size_t *unpacked) {
    const uint8_t *at = from, *end = from + size;
    if (!is_framed(from, size)) return read_size(&at, end, unpacked);
    *unpacked = 0;
    for (at += frame_header; end - at >= 4;) {
        size_t length = big_endian(at, 4), more;
        at += 4;
        if (length > (size_t)(end - at)) return false;
        const uint8_t *block = at;
        if (!read_size(&block, at + length, &more)) return false;
        *unpacked += more;
        at += length;
    }
    return at == end;
}

bool snappy_unpack(const uint8_t *from, size_t size, uint8_t *to, size_t unpacked) {
    const uint8_t *at = from, *end = from + size;
    if (!is_framed(from, size)) return unpack_block(at, end, to, unpacked);
    size_t done = 0;
    for (at += frame_header; end - at >= 4;) {
        size_t length = big_endian(at, 4), more;
        at += 4;
        if (length > (size_t)(end - at)) return false;
        const uint8_t *block = at;
        if (!read_size(&block, at + length, &more) || more > unpacked - done) return false;
        if (!unpack_block(at, at + length, to + done, more)) return false;
        done += more;
        at += length;
    }
    return at == end && done == unpacked;
}
