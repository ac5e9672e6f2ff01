#define _GNU_SOURCE
#include "CUnpacking.h"
#include "parts.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

static _Atomic uint64_t fetch_count;

uint64_t unpacking_fetch_count(void) { return atomic_load(&fetch_count); }

// MARK: Fetch responses

/// How the answers of some versions of Fetch are laid out; the request says which version it is, which is not seen here.
typedef struct {
    /// From version 5, 7, 11, 12 and 13 on.
    bool has_log_start, has_session, has_replica, is_compact, has_topic_id;
} layout;

static const layout layouts[] = {
    {true, true, true, false, false}, {true, true, true, true, true},     {true, true, true, true, false},
    {true, true, false, false, false}, {true, false, false, false, false}, {false, false, false, false, false},
};

typedef struct {
    uint8_t *at, *end;
    bool is_compact;
    /// Nothing more is read.
    bool has_failed;
} response_reader;

static void skip(response_reader *reader, uint64_t bytes) {
    if (reader->has_failed || bytes > (uint64_t)(reader->end - reader->at)) reader->has_failed = true;
    else reader->at += bytes;
}

static uint64_t read_fixed(response_reader *reader, int bytes) {
    const uint8_t *at = reader->at;
    skip(reader, bytes);
    return reader->has_failed ? 0 : big_endian(at, bytes);
}

static uint32_t read_compact(response_reader *reader) {
    uint64_t bits = 0;
    for (int shift = 0; shift < 35; shift += 7) {
        uint8_t byte = (uint8_t)read_fixed(reader, 1);
        bits |= (uint64_t)(byte & 0x7F) << shift;
        if (byte & 0x80) continue;
        if (bits > UINT32_MAX) break;
        return (uint32_t)bits;
    }
    reader->has_failed = true;
    return 0;
}

/// A length, or the count of things that have at least `least` bytes each; in versions that are not compact it has `bytes`
/// bytes itself. None is 0. More than there can be are not gone through: so ends what is read by another layout than its own.
static uint64_t read_count(response_reader *reader, int bytes, uint64_t least) {
    uint64_t count;
    if (reader->is_compact) {
        uint32_t number = read_compact(reader);
        count = number == 0 ? 0 : number - 1;
    } else {
        uint64_t none = bytes == 2 ? UINT16_MAX : UINT32_MAX;
        count = read_fixed(reader, bytes);
        if (count == none) return 0;
    }
    if (!reader->has_failed && count > (uint64_t)(reader->end - reader->at) / least) reader->has_failed = true;
    return reader->has_failed ? 0 : count;
}

static void skip_tags(response_reader *reader) {
    if (!reader->is_compact) return;
    for (uint32_t count = read_compact(reader); count > 0 && !reader->has_failed; count--) {
        read_compact(reader);
        skip(reader, read_compact(reader));
    }
}

/// What a response says of a partition's log.
typedef struct {
    /// The lowest offset; 0 where that is not told.
    int64_t start;
    /// Behind the highest that may be read, as of before the records were: they may go further. Negative: that is not told.
    int64_t end;
} log_bounds;

/// Where a batch is said to begin of which nobody knows that: above all that may be asked for.
static const int64_t unknown_offset = INT64_MAX - INT32_MAX;

/// Makes what is there one batch that cannot be read, and that librdkafka goes no further than to; where too little is there,
/// one that is cut.
static void refuse(uint8_t *at, size_t size, size_t left, int64_t base_offset) {
    if (size < header_size) size = left;
    if (size >= header_size) return make_damaged(at, size, base_offset);
    set_big_endian(at + length_at, 4, INT32_MAX);
    at[magic_at] = 2;
}

/// What was found of batches: those that are as they should be, and those that are not.
typedef struct {
    uint64_t good, wrong;
} batch_tally;

/// Of each partition there is `log`. What no checksum covers is held against what is beside it. Without a caller nothing is
/// changed.
static void check_batches(uint8_t *at, const uint8_t *end, log_bounds log, const void *caller, batch_tally *tally) {
    if (log.end < 0) log.end = INT64_MAX;
    // The lowest first offset that the next batch may have.
    int64_t next = 0;
    for (bool is_first = true; end - at > magic_at; is_first = false) {
        size_t left = end - at, size = length_behind + (size_t)big_endian(at + length_at, 4);
        int64_t base = (int64_t)big_endian(at, 8), last;
        uint8_t magic = at[magic_at];
        if (size > left) {
            // The last may be cut. librdkafka leaves it for the next fetch, unless its version is none that it knows: then it
            // passes over its first record.
            if (caller && magic > 2) at[magic_at] = 2;
            break;
        }
        // It fails at those.
        if (size <= magic_at || (magic == 2 && size < header_size)) {
            if (caller && magic > 2) refuse(at, size, left, unknown_offset);
            break;
        }
        if (magic < 2 && is_intact_message(at, size)) {
            next = 0;
            at += size;
            continue;
        }
        // Beyond the log's end that was told all was written just now, with nothing missing in between.
        bool is_placed = base >= next && (base < log.end || base == (is_first ? log.end : next));
        if (magic != 2 || !is_intact(at, size)) {
            tally->wrong++;
            if (caller) refuse(at, size, left, is_placed && log.end - base <= INT32_MAX ? base : unknown_offset);
            break;
        }
        if (is_made_damaged(at, size)) {
            tally->wrong++;
            break;
        }
        int32_t delta = (int32_t)big_endian(at + last_delta_at, 4);
        bool is_over = __builtin_add_overflow(base, delta < 0 ? 0 : delta, &last) || last == INT64_MAX;
        if (is_over || (is_first && last < log.start)) is_placed = false;
        // Of two that overlap either may be elsewhere, and the other one was not read yet.
        if (left - size >= 8 && (int64_t)big_endian(at + size, 8) <= last) is_placed = false;
        if (!is_placed) {
            tally->wrong++;
            if (caller) refuse(at, size, left, unknown_offset);
            break;
        }
        tally->good++;
        if (caller) unpacking_check_batch(at, size, caller);
        next = last + 1;
        at += size;
    }
}

/// Reads a response of this layout, to its last byte; false: it is none. With a tally its batches are looked at.
static bool read_response(const layout *layout, uint8_t *bytes, size_t size, const void *caller, batch_tally *tally) {
    response_reader reader = {bytes, bytes + size, layout->is_compact, false};
    // A part of the response's header; what is before it is no part of `bytes`.
    skip_tags(&reader);
    skip(&reader, 4); // throttle time
    if (layout->has_session) skip(&reader, 6); // error, session
    for (uint64_t topics = read_count(&reader, 4, 2); topics > 0 && !reader.has_failed; topics--) {
        skip(&reader, layout->has_topic_id ? 16 : read_count(&reader, 2, 1));
        for (uint64_t partitions = read_count(&reader, 4, 22); partitions > 0 && !reader.has_failed; partitions--) {
            skip(&reader, 4 + 2); // number, error
            log_bounds log = {.end = (int64_t)read_fixed(&reader, 8)};
            skip(&reader, 8); // last stable offset
            if (layout->has_log_start) log.start = (int64_t)read_fixed(&reader, 8);
            for (uint64_t aborted = read_count(&reader, 4, 16); aborted > 0 && !reader.has_failed; aborted--) {
                skip(&reader, 16);
                skip_tags(&reader);
            }
            if (layout->has_replica) skip(&reader, 4);
            uint64_t length = read_count(&reader, 4, 1);
            uint8_t *records = reader.at;
            skip(&reader, length);
            if (tally && !reader.has_failed) check_batches(records, reader.at, log, caller, tally);
            skip_tags(&reader);
        }
        skip_tags(&reader);
    }
    skip_tags(&reader);
    return !reader.has_failed && reader.at == reader.end;
}

bool unpacking_check_response(uint8_t *bytes, size_t size, const void *caller) {
    enum { count = sizeof(layouts) / sizeof(layouts[0]) };
    const layout *fitting[count];
    size_t fitting_count = 0;
    for (size_t index = 0; index < count; index++) {
        if (read_response(&layouts[index], bytes, size, NULL, NULL)) fitting[fitting_count++] = &layouts[index];
    }
    batch_tally best = {0, 0}, found = {0, 0};
    if (fitting_count > 1) {
        // More than one layout may fit by chance. The right one is that by which most batches are intact; where none is by any,
        // each is tried.
        const layout *right = NULL;
        for (size_t index = 0; index < fitting_count; index++) {
            batch_tally tally = {0, 0};
            read_response(fitting[index], bytes, size, NULL, &tally);
            if (tally.good > best.good || (tally.good > 0 && tally.good == best.good && tally.wrong < best.wrong)) {
                best = tally;
                right = fitting[index];
            }
        }
        if (right) {
            fitting[0] = right;
            fitting_count = 1;
        }
    }
    for (size_t index = 0; index < fitting_count; index++) read_response(fitting[index], bytes, size, caller, &found);
    return found.good + found.wrong > 0;
}

// MARK: What is received

/// A response's length, and the number of its request.
enum { prefix_size = 8 };

/// The response that this thread receives, as librdkafka does (rdkafka_broker.c, rd_kafka_recv): first its prefix alone, then
/// the rest into one buffer, each in as many pieces as they come. A broker has a thread and one connection at a time.
static __thread struct {
    uintptr_t connection;
    uint8_t prefix[prefix_size];
    size_t prefix_done;
    /// Behind the prefix; 0: it is not known yet.
    size_t size;
    /// NULL: nothing of that was received yet.
    uint8_t *start;
    size_t done;
} response;

static void forget_response(void) {
    response.prefix_done = response.size = response.done = 0;
    response.start = NULL;
}

/// So many bytes were put there, where there was room for so many.
static void take(uintptr_t connection, uint8_t *at, size_t count, size_t room, const void *caller) {
    if (response.connection != connection) forget_response();
    response.connection = connection;
    if (response.start ? at == response.start + response.done && room == response.size - response.done
                       : response.size > 0 && room == response.size) {
        if (!response.start) response.start = at;
        response.done += count;
        if (response.done < response.size) return;
        if (unpacking_check_response(response.start, response.size, caller)) {
            atomic_fetch_add_explicit(&fetch_count, 1, memory_order_relaxed);
        }
        forget_response();
        return;
    }
    if (response.size > 0 || room != prefix_size - response.prefix_done) forget_response();
    // Another connection at the same place, in the midst of a response.
    if (room != prefix_size - response.prefix_done || count > room) return;
    memcpy(response.prefix + response.prefix_done, at, count);
    response.prefix_done += count;
    if (response.prefix_done < prefix_size) return;
    uint64_t size = big_endian(response.prefix, 4);
    forget_response();
    if (size > 4 && size <= INT32_MAX) response.size = size - 4;
}

typedef ssize_t (*receive)(int, struct msghdr *, int);
typedef int (*receive_tls)(void *, void *, int);

/// What librdkafka called before.
static _Atomic(void *) real_receive;
static _Atomic(void *) real_receive_tls;

static ssize_t receive_and_look(int socket, struct msghdr *message, int flags) {
    ssize_t count = ((receive)atomic_load_explicit(&real_receive, memory_order_relaxed))(socket, message, flags);
    const void *caller = __builtin_return_address(0);
    size_t left = count > 0 ? (size_t)count : 0;
    for (size_t index = 0; index < message->msg_iovlen && left > 0; index++) {
        size_t room = message->msg_iov[index].iov_len;
        size_t taken = left < room ? left : room;
        take((uintptr_t)socket, message->msg_iov[index].iov_base, taken, room, caller);
        left -= taken;
    }
    return count;
}

static int receive_tls_and_look(void *connection, void *to, int room) {
    int count = ((receive_tls)atomic_load_explicit(&real_receive_tls, memory_order_relaxed))(connection, to, room);
    if (count > 0) take((uintptr_t)connection, to, count, room, __builtin_return_address(0));
    return count;
}

unpacking_watch unpacking_watch_responses(const void *caller) {
    unpacking_watch watch = {
        .plain = unpacking_redirect(caller, "recvmsg", (void *)receive_and_look, &real_receive),
        .tls = unpacking_redirect(caller, "SSL_read", (void *)receive_tls_and_look, &real_receive_tls),
    };
    return watch;
}
