// A minimal nghttp2 and OpenSSL program that does the worker's APNs work: it posts each request and reads each answer.
// It has no queue, no resend window and no state per request. One thread polls all connections with poll(2).
#include "floors.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RECORD 16384
#define PREFIX "/3/device/"
#define PATH (sizeof(PREFIX) - 1 + 64)

static int64_t count, submitted, answered, refused;
static int devices;
static char *paths, *payload, id[] = "00000000-0000-8000-8000-000000000000";
// The header fields of a request, which are those of the worker's requests. `submit` changes the path and the apns-id.
static nghttp2_nv fields[8];

typedef struct {
    int socket, is_blocked, open, streams; // streams is 0 until the server's SETTINGS arrive
    SSL *ssl;
    nghttp2_session *session;
    uint8_t output[3 * RECORD]; // a TLS record, and room for the frame that fills it
    size_t size;
} connection;

static void fail(const char *what) {
    fprintf(stderr, "apns-bench: send-floor: %s\n", what);
    exit(1);
}

static void put_number(char *end, int64_t number, int base, int width) {
    for (; width > 0; width--, number /= base) *--end = "0123456789abcdef"[number % base];
}

static ssize_t read_body(nghttp2_session *session, int32_t stream, uint8_t *into, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user) {
    size_t size = strlen(payload);
    if (size > room) return NGHTTP2_ERR_CALLBACK_FAILURE;
    memcpy(into, payload, size);
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    return size;
}

static void submit(connection *it) {
    fields[3].value = (uint8_t *)paths + submitted % devices * PATH;
    put_number(id + 36, submitted, 16, 12);
    for (char *at = payload; (at = strstr(at, "\"Order ")); at += 16) put_number(at + 16, submitted, 10, 9);
    char *order = strstr(payload, "\"order\":\"");
    put_number(order + 18, submitted, 10, 9);
    nghttp2_data_provider body = {.read_callback = read_body};
    if (nghttp2_submit_request(it->session, NULL, fields, 8, &body, NULL) <= 0)
        fail("nghttp2 did not accept a request");
    submitted++;
    it->open++;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name, size_t name_size,
                     const uint8_t *value, size_t size, uint8_t flags, void *user) {
    if (name_size == 7 && name[0] == ':' && (size != 3 || memcmp(value, "200", 3) != 0)) refused++;
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user) {
    if (frame->hd.type != NGHTTP2_SETTINGS) return 0;
    uint32_t limit = nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
    ((connection *)user)->streams = limit < 1000 ? limit : 1000;
    return 0;
}

static int on_close(nghttp2_session *session, int32_t stream, uint32_t code, void *user) {
    ((connection *)user)->open--;
    answered++;
    refused += code != 0;
    return 0;
}

static void start(connection *it, SSL_CTX *context, int port) {
    struct sockaddr_in address = {AF_INET, htons(port), {htonl(INADDR_LOOPBACK)}};
    it->socket = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(it->socket, (struct sockaddr *)&address, sizeof address) != 0) fail("cannot connect to the server");
    setsockopt(it->socket, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    it->ssl = SSL_new(context);
    SSL_set_fd(it->ssl, it->socket);
    SSL_set_tlsext_host_name(it->ssl, "localhost");
    if (SSL_connect(it->ssl) != 1) fail("the TLS handshake failed");
    SSL_set_mode(it->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    fcntl(it->socket, F_SETFL, fcntl(it->socket, F_GETFL) | O_NONBLOCK);
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_client_new(&it->session, callbacks, it);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_settings_entry no_push = {NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
    nghttp2_submit_settings(it->session, 0, &no_push, 1);
}

/// Writes the buffered output in full TLS records. If `all` is set, also writes the rest, which is less than a record.
static void flush(connection *it, int all) {
    size_t start = 0;
    while (it->size - start >= RECORD || (all && it->size > start)) {
        size_t size = it->size - start < RECORD ? it->size - start : RECORD;
        int written = SSL_write(it->ssl, it->output + start, size);
        if (written <= 0) {
            if (SSL_get_error(it->ssl, written) != SSL_ERROR_WANT_WRITE) fail("the server ended the connection");
            it->is_blocked = 1;
            break;
        }
        start += written;
    }
    it->size -= start;
    if (start > 0) memmove(it->output, it->output + start, it->size);
}

static void gather(connection *it) {
    const uint8_t *bytes;
    ssize_t size;
    while (it->size < 2 * RECORD && (size = nghttp2_session_mem_send(it->session, &bytes)) != 0) {
        if (size < 0 || size > RECORD + 9) fail("nghttp2 could not serialize a frame");
        memcpy(it->output + it->size, bytes, size);
        it->size += size;
    }
    flush(it, 0);
}

/// Reads the connection's available bytes, and sends as many requests as its stream limit allows.
static void turn(connection *it) {
    static uint8_t input[RECORD];
    int size;
    it->is_blocked = 0;
    while ((size = SSL_read(it->ssl, input, sizeof input)) > 0)
        if (nghttp2_session_mem_recv(it->session, input, size) != size) fail("nghttp2 refused the server's bytes");
    if (SSL_get_error(it->ssl, size) != SSL_ERROR_WANT_READ) fail("the server ended the connection");
    gather(it);
    while (it->open < it->streams && submitted < count && !it->is_blocked) {
        submit(it);
        gather(it);
    }
    flush(it, 1);
}

int64_t send_floor(int port, const char *authority, int connections, int64_t wanted, const char *tokens, int device_count,
                   const char *text, const char *authorization, const char *topic) {
    count = wanted;
    devices = device_count;
    payload = strdup(text);
    paths = malloc(devices * PATH);
    for (int i = 0; i < devices; i++) {
        memcpy(paths + i * PATH, PREFIX, sizeof(PREFIX) - 1);
        memcpy(paths + i * PATH + sizeof(PREFIX) - 1, tokens + i * 64, 64);
    }
    const char *all[8][2] = {{":method", "POST"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", paths},
                             {"authorization", authorization}, {"apns-topic", topic}, {"apns-push-type", "alert"},
                             {"apns-id", id}};
    for (int i = 0; i < 8; i++)
        fields[i] = (nghttp2_nv){(uint8_t *)all[i][0], (uint8_t *)all[i][1], strlen(all[i][0]),
                                 i == 3 ? PATH : strlen(all[i][1]),
                                 NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                     | (i == 3 || i == 7 ? NGHTTP2_NV_FLAG_NO_INDEX : 0)};
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context || SSL_CTX_load_verify_locations(context, authority, NULL) != 1)
        fail("the CA certificate cannot be read");
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\2h2", 3);
    connection *all_connections = calloc(connections, sizeof(connection));
    struct pollfd *watched = calloc(connections, sizeof(struct pollfd));
    for (int i = 0; i < connections; i++) start(all_connections + i, context, port);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    for (int i = 0; i < connections; i++) turn(all_connections + i);
    while (answered < count) {
        for (int i = 0; i < connections; i++)
            watched[i] = (struct pollfd){all_connections[i].socket,
                                         all_connections[i].is_blocked ? POLLIN | POLLOUT : POLLIN, 0};
        if (poll(watched, connections, 1000) < 0 && errno != EINTR) fail("poll failed");
        for (int i = 0; i < connections; i++)
            if (watched[i].revents) turn(all_connections + i);
    }
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (refused) fail("not all requests were answered with 200");
    return (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
}
