// What Swift imports of this library; macros and variadic functions get a static inline function here.
#pragma once
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdint.h>

/// rd_kafka_producev with the arguments fixed: key and value are copied, `headers` (may be NULL) belong to librdkafka
/// once this returned RD_KAFKA_RESP_ERR_NO_ERROR and stay the caller's otherwise; `tag` comes back as `_private`.
/// (producev, not produceva: an error is a code, not an allocated object; rdkafka.h.)
static inline rd_kafka_resp_err_t crdkafka_produce(rd_kafka_t *client, rd_kafka_topic_t *topic, int32_t partition,
                                                   const void *key, size_t key_size, const void *value,
                                                   size_t value_size, rd_kafka_headers_t *headers,
                                                   int64_t timestamp_ms, uint64_t tag) {
    return rd_kafka_producev(client, RD_KAFKA_V_RKT(topic), RD_KAFKA_V_PARTITION(partition),
                             RD_KAFKA_V_KEY((void *)key, key_size), RD_KAFKA_V_VALUE((void *)value, value_size),
                             RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_TIMESTAMP(timestamp_ms),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE((void *)(uintptr_t)tag),
                             RD_KAFKA_V_END);
}

/// `_private` of a delivery report, as the number crdkafka_produce was given.
static inline uint64_t crdkafka_tag(const rd_kafka_message_t *message) {
    return (uint64_t)(uintptr_t)message->_private;
}
