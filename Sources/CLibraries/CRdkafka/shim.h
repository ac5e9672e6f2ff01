// The declarations of librdkafka that Swift imports, with static inline wrappers of macros and variadic functions.
#pragma once
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <stdint.h>

/// Calls rd_kafka_producev with fixed arguments. Key and value are copied. librdkafka takes ownership of `headers` (may
/// be NULL) if the function returns RD_KAFKA_RESP_ERR_NO_ERROR. The delivery report contains `tag` as `_private`.
/// (rd_kafka_produceva would return an error as an allocated object.)
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

/// Returns `_private` of a delivery report as the number passed to crdkafka_produce.
static inline uint64_t crdkafka_tag(const rd_kafka_message_t *message) {
    return (uint64_t)(uintptr_t)message->_private;
}

/// Makes mock brokers assign a new group's partitions without delay. By default, they wait for three seconds. Does
/// nothing if this build's librdkafka headers are older than 2.6.0, whose brokers always wait.
static inline void crdkafka_mock_assign_immediately(rd_kafka_mock_cluster_t *cluster) {
#if RD_KAFKA_VERSION >= 0x020600ff
    rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 0);
#else
    (void)cluster;
#endif
}

/// Calls `tell` with the id of each topic that brokers describe within `timeout_ms`. Never calls `tell` if this build's
/// librdkafka headers are older than 2.3.0, the first version with this request.
static inline void crdkafka_topic_ids(rd_kafka_t *client, const char **names, size_t count, int timeout_ms, void *context,
                                      void (*tell)(void *context, const char *name, int64_t high, int64_t low)) {
#if RD_KAFKA_VERSION >= 0x020300ff
    char text[256];
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client, RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
    rd_kafka_TopicCollection_t *topics = rd_kafka_TopicCollection_of_topic_names(names, count);
    rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, text, sizeof text);
    rd_kafka_DescribeTopics(client, topics, options, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, timeout_ms);
    const rd_kafka_DescribeTopics_result_t *result = event ? rd_kafka_event_DescribeTopics_result(event) : NULL;
    size_t found = 0;
    const rd_kafka_TopicDescription_t **all = result ? rd_kafka_DescribeTopics_result_topics(result, &found) : NULL;
    for (size_t i = 0; i < found; i++) {
        const rd_kafka_error_t *error = rd_kafka_TopicDescription_error(all[i]);
        if (error && rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR_NO_ERROR) continue;
        const rd_kafka_Uuid_t *id = rd_kafka_TopicDescription_topic_id(all[i]);
        if (id)
            tell(context, rd_kafka_TopicDescription_name(all[i]), rd_kafka_Uuid_most_significant_bits(id),
                 rd_kafka_Uuid_least_significant_bits(id));
    }
    if (event) rd_kafka_event_destroy(event);
    rd_kafka_TopicCollection_destroy(topics);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_queue_destroy(queue);
#else
    (void)client, (void)names, (void)count, (void)timeout_ms, (void)context, (void)tell;
#endif
}
