// CrashTests preload this library into a worker (LD_PRELOAD). It crashes the worker at a record with POISON_WORD.
// POISON_AT: `read` (as the record is read), `send` (as its request is encoded, on the net thread), `dial` (at no record),
// `broker` (on a thread of librdkafka's).
// POISON_BY: `trap`, `segv`, `abort`, `stack` (which runs out), `kill` (as the OOM killer does)
// or `stop` (by a trap after a SIGTERM to its supervisor).
#define _GNU_SOURCE
#include <dlfcn.h>
#include <librdkafka/rdkafka.h>
#include <nghttp2/nghttp2.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static volatile int depth;
static const rd_kafka_message_t *with_headers, *stamped;

static __attribute__((noinline)) int deeper(int number) {
    volatile char waste[4096];
    waste[0] = (char)number;
    depth++;
    return deeper(number + 1) + waste[0];
}

static void die_at(const char *place) {
    const char *at = getenv("POISON_AT"), *by = getenv("POISON_BY");
    if (!at || strcmp(at, place) != 0) return;
    if (!by || strcmp(by, "trap") == 0) __builtin_trap();
    if (strcmp(by, "segv") == 0) *(volatile int *)8 = 1;
    if (strcmp(by, "abort") == 0) abort();
    if (strcmp(by, "stack") == 0) depth = deeper(0);
    if (strcmp(by, "kill") == 0) kill(getpid(), SIGKILL);
    if (strcmp(by, "stop") == 0) {
        kill(getppid(), SIGTERM);
        __builtin_trap();
    }
}

static int is_poison(const void *bytes, size_t count) {
    const char *word = getenv("POISON_WORD");
    return word && bytes && memmem(bytes, count, word, strlen(word)) != NULL;
}

int64_t rd_kafka_message_timestamp(const rd_kafka_message_t *message, rd_kafka_timestamp_type_t *type) {
    static int64_t (*real)(const rd_kafka_message_t *, rd_kafka_timestamp_type_t *);
    if (!real) real = dlsym(RTLD_NEXT, "rd_kafka_message_timestamp");
    // A record's headers are read first. A record that is not parsed is asked for its timestamp before them, and again later.
    if (is_poison(message->payload, message->len)) {
        if (with_headers == message && stamped != message) die_at("read");
        stamped = message;
    }
    return real(message, type);
}

rd_kafka_resp_err_t rd_kafka_message_headers(const rd_kafka_message_t *message, rd_kafka_headers_t **headers) {
    static rd_kafka_resp_err_t (*real)(const rd_kafka_message_t *, rd_kafka_headers_t **);
    if (!real) real = dlsym(RTLD_NEXT, "rd_kafka_message_headers");
    if (is_poison(message->payload, message->len)) with_headers = message;
    return real(message, headers);
}

int32_t nghttp2_submit_request(nghttp2_session *session, const nghttp2_priority_spec *priority, const nghttp2_nv *fields,
                               size_t count, const nghttp2_data_provider *data, void *user) {
    static int32_t (*real)(nghttp2_session *, const nghttp2_priority_spec *, const nghttp2_nv *, size_t,
                           const nghttp2_data_provider *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "nghttp2_submit_request");
    for (size_t index = 0; index < count; index++)
        if (is_poison(fields[index].value, fields[index].valuelen)) die_at("send");
    return real(session, priority, fields, count, data, user);
}

int nghttp2_submit_settings(nghttp2_session *session, uint8_t flags, const nghttp2_settings_entry *entries,
                            size_t count) {
    static int (*real)(nghttp2_session *, uint8_t, const nghttp2_settings_entry *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "nghttp2_submit_settings");
    die_at("dial");
    return real(session, flags, entries, count);
}

static void die_of_broker(void) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof name);
    if (strncmp(name, "rdk:broker", 10) == 0) die_at("broker");
}

ssize_t recvmsg(int descriptor, struct msghdr *message, int flags) {
    static ssize_t (*real)(int, struct msghdr *, int);
    if (!real) real = dlsym(RTLD_NEXT, "recvmsg");
    die_of_broker();
    return real(descriptor, message, flags);
}

ssize_t recv(int descriptor, void *bytes, size_t count, int flags) {
    static ssize_t (*real)(int, void *, size_t, int);
    if (!real) real = dlsym(RTLD_NEXT, "recv");
    die_of_broker();
    return real(descriptor, bytes, count, flags);
}
