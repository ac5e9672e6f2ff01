// A minimal librdkafka program that does the worker's Kafka work: it reads each record with its headers, formats and
// produces its result, and waits for the acknowledgement. It has no ledger, commits no offsets and sends nothing to
// APNs.
#include "floors.h"
#include <librdkafka/rdkafka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH 1000

static void fail(const char *what, const char *why) {
    fprintf(stderr, "apns-bench: kafka-floor: %s: %s\n", what, why);
    exit(1);
}

static int64_t ms(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

static rd_kafka_t *client(rd_kafka_type_t type, const char *const *properties, int count) {
    char text[512];
    rd_kafka_conf_t *configuration = rd_kafka_conf_new();
    for (int i = 0; i < count; i += 2)
        if (rd_kafka_conf_set(configuration, properties[i], properties[i + 1], text, sizeof text) != RD_KAFKA_CONF_OK)
            fail(properties[i], text);
    if (type == RD_KAFKA_PRODUCER) rd_kafka_conf_set_events(configuration, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR);
    rd_kafka_t *client = rd_kafka_new(type, configuration, text, sizeof text);
    if (!client) fail("cannot create a client", text);
    return client;
}

static char *put(char *at, const void *bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}
#define TEXT(at, text) put(at, text, sizeof(text) - 1)

static char *number(char *at, int64_t value) {
    char digits[20];
    int first = sizeof digits;
    do digits[--first] = '0' + value % 10;
    while (value /= 10);
    return put(at, digits + first, sizeof digits - first);
}

/// Writes the JSON of an accepted notification's result (`apns.results`), and returns a pointer to its end.
static char *result(char *at, const rd_kafka_message_t *message, const char *requests, int64_t now_ms) {
    // Read every header, as the worker does.
    rd_kafka_headers_t *headers;
    const char *name, *topic = "";
    const void *value;
    size_t size, topic_size = 0;
    if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
            if (strcmp(name, "apns-topic") == 0) topic = value, topic_size = size;
    char id[36];
    for (int i = 0, digit = 0; i < 36; i++) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            id[i] = '-';
        } else {
            uint64_t word = digit < 16 ? (uint64_t)message->offset : (uint64_t)message->partition;
            id[i] = "0123456789abcdef"[word >> (60 - (digit++ & 15) * 4) & 15];
        }
    }
    at = TEXT(at, "{\"outcome\":\"accepted\",\"status\":200,\"apns_id\":\"");
    at = put(at, id, sizeof id);
    at = TEXT(at, "\",\"device_token\":\"");
    at = put(at, message->key, message->key_len);
    at = TEXT(at, "\",\"apns_topic\":\"");
    at = put(at, topic, topic_size);
    at = TEXT(at, "\",\"app\":\"bench\",\"environment\":\"production\",\"attempts\":1,\"in_doubt\":0,\"requested_at_ms\":");
    at = number(at, rd_kafka_message_timestamp(message, NULL));
    at = TEXT(at, ",\"sent_at_ms\":");
    at = number(at, now_ms);
    at = TEXT(at, ",\"settled_at_ms\":");
    at = number(at, now_ms);
    at = TEXT(at, ",\"request\":{\"topic\":\"");
    at = put(at, requests, strlen(requests));
    at = TEXT(at, "\",\"partition\":");
    at = number(at, message->partition);
    at = TEXT(at, ",\"offset\":");
    at = number(at, message->offset);
    return TEXT(at, ",\"index\":0}}");
}

static int64_t take_reports(rd_kafka_queue_t *queue, int timeout_ms) {
    int64_t acknowledged = 0;
    rd_kafka_event_t *event;
    for (; (event = rd_kafka_queue_poll(queue, timeout_ms)); timeout_ms = 0) {
        const rd_kafka_message_t *message;
        while (rd_kafka_event_type(event) == RD_KAFKA_EVENT_DR && (message = rd_kafka_event_message_next(event))) {
            if (message->err) fail("a result was not written", rd_kafka_err2str(message->err));
            acknowledged++;
        }
        rd_kafka_event_destroy(event);
    }
    return acknowledged;
}

int64_t kafka_floor(const char *servers, const char *requests, const char *results, int partitions, int64_t count,
                    const char *const *properties, int property_count) {
    const char *reading[] = {"bootstrap.servers", servers, "log_level", "0", "group.id", "apns-bench",
                             "enable.auto.commit", "false", "socket.nagle.disable", "true"};
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, reading, sizeof reading / sizeof *reading);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, properties, property_count);
    rd_kafka_topic_t *topic = rd_kafka_topic_new(producer, results, NULL);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(list, requests, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    rd_kafka_resp_err_t code = rd_kafka_assign(consumer, list);
    if (code) fail(requests, rd_kafka_err2str(code));
    rd_kafka_queue_t *records = rd_kafka_queue_get_consumer(consumer), *reports = rd_kafka_queue_get_main(producer);
    static rd_kafka_message_t *batch[BATCH];
    static char value[4096];
    int64_t consumed = 0, acknowledged = 0, start_ms = 0;
    while (acknowledged < count) {
        ssize_t taken = consumed < count ? rd_kafka_consume_batch_queue(records, 10, batch, BATCH) : 0;
        if (taken > 0 && !start_ms) start_ms = ms(CLOCK_MONOTONIC);
        int64_t now_ms = ms(CLOCK_REALTIME);
        for (ssize_t i = 0; i < taken; i++) {
            rd_kafka_message_t *message = batch[i];
            size_t size = message->err ? 0 : result(value, message, requests, now_ms) - value;
            consumed += !message->err;
            while (!message->err) {
                rd_kafka_headers_t *headers = rd_kafka_headers_new(1);
                rd_kafka_header_add(headers, "outcome", 7, "accepted", 8);
                code = rd_kafka_producev(producer, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_KEY(message->key, message->key_len),
                                         RD_KAFKA_V_VALUE(value, size), RD_KAFKA_V_HEADERS(headers),
                                         RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
                if (!code) break;
                rd_kafka_headers_destroy(headers);
                if (code != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail("a result was not produced", rd_kafka_err2str(code));
                acknowledged += take_reports(reports, 10);
            }
            rd_kafka_message_destroy(message);
        }
        acknowledged += take_reports(reports, consumed < count ? 0 : 100);
    }
    return ms(CLOCK_MONOTONIC) - start_ms;
}
