import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Shop SERVERS REQUESTS RESULTS UNREGISTERED: a service that sends notifications, in Java with Kafka's client and Jackson.
 *
 * <p>Sends an order notification to two devices and news to three, reads the results, and deletes the device that is
 * unregistered. Exits with 0 if everything is as expected. It uses only what README.md documents.
 */
public final class Shop {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String GONE = "fa174101" + "0".repeat(56);

    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0];
        // The shop's devices: token -> time of its last registration. The last token has been unregistered since 2020.
        Map<String, Long> registered = new LinkedHashMap<>();
        for (int number = 1; number <= 4; number++) {
            registered.put("0000000" + number + "0".repeat(56), System.currentTimeMillis());
        }
        registered.put(GONE, 1_500_000_000_000L);
        List<String> tokens = List.copyOf(registered.keySet());

        Set<String> written = produce(servers, arguments[1], tokens);

        // A result that is repeated after a crash has the same `request`. The topic also contains results of other services.
        Map<JsonNode, String> outcomes = new HashMap<>();
        consume(servers, arguments[2], result -> {
            JsonNode request = result.path("request");
            if (!written.contains(
                    request.path("topic").asText() + "-" + request.path("partition") + "@" + request.path("offset"))) {
                return true;
            }
            String outcome = result.path("outcome").asText();
            String token = result.path("device_token").asText();
            outcomes.put(request, token + " " + outcome);
            System.out.println(outcome + " " + result.path("reason").asText("") + " " + token.substring(0, 8) + "…");
            return outcomes.size() < tokens.size();
        });

        consume(servers, arguments[3], dead -> {
            String token = dead.path("device_token").asText();
            long since = dead.path("unregistered_at_ms").asLong(0);
            // A token that was registered again since then is valid.
            if (registered.getOrDefault(token, Long.MAX_VALUE) >= since) {
                return true;
            }
            registered.remove(token);
            System.out.println("forgotten: " + token.substring(0, 8) + "…, gone since " + since);
            return false;
        });

        List<String> expected = new ArrayList<>();
        for (String token : tokens) {
            expected.add(token + (token.equals(GONE) ? " unregistered" : " accepted"));
        }
        boolean isRight = outcomes.values().stream().sorted().toList().equals(expected) && registered.size() == 4;
        System.out.println(isRight ? "all is well" : "the results or the devices are not as expected");
        System.exit(isRight ? 0 : 1);
    }

    /** Writes the requests, and returns their places as TOPIC-PARTITION@OFFSET, by which results are matched. */
    private static Set<String> produce(String servers, String topic, List<String> tokens) throws Exception {
        // Since Kafka 3.0 the client is idempotent and waits for all replicas by default.
        Map<String, Object> settings = Map.of(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        List<Future<RecordMetadata>> written = new ArrayList<>();
        try (Producer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            // Payload form: the key is the device token, and the value is the payload, which is sent byte for byte.
            for (int number = 0; number < 2; number++) {
                Map<String, ?> alert = Map.of("title", "Order " + number, "body", "is on its way \uD83D\uDE9A");
                String payload = JSON.writeValueAsString(Map.of("aps", Map.of("alert", alert, "sound", "default")));
                ProducerRecord<String, String> order = new ProducerRecord<>(topic, tokens.get(number), payload);
                // A header's value is bytes: serializers apply only to keys and values, so encode the text as UTF-8.
                order.headers().add("apns-topic", utf8("com.example.shop"));
                order.headers().add("apns-collapse-id", utf8("order-" + number));
                long expiration = Instant.now().plus(Duration.ofHours(1)).getEpochSecond();
                order.headers().add("apns-expiration", utf8(Long.toString(expiration)));
                written.add(producer.send(order));
            }
            // Envelope form: one record for several devices, with one result for each device.
            Map<String, ?> envelope = Map.of(
                    "device_tokens", tokens.subList(2, tokens.size()),
                    "headers", Map.of("apns-topic", "com.example.shop", "apns-push-type", "background"),
                    "payload", Map.of("aps", Map.of("content-available", 1)));
            written.add(producer.send(new ProducerRecord<>(topic, JSON.writeValueAsString(envelope))));
            producer.flush();
            Set<String> places = new HashSet<>();
            for (Future<RecordMetadata> future : written) {
                places.add(future.get().toString()); // throws if the record was not written
            }
            return places;
        }
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    /** Passes the topic's records to the reader until it has enough, and commits the records of each poll. */
    private static void consume(String servers, String topic, Predicate<JsonNode> wantsMore) throws Exception {
        Map<String, Object> settings = Map.of(
                ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, servers,
                ConsumerConfig.GROUP_ID_CONFIG, "shop." + topic,
                ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
                ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
        Instant deadline = Instant.now().plusSeconds(60);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            boolean isOpen = true;
            while (isOpen) {
                if (Instant.now().isAfter(deadline)) {
                    throw new IllegalStateException(topic + ": not all records arrived within 60 s");
                }
                for (var record : consumer.poll(Duration.ofSeconds(1))) {
                    if (record.value() != null) {
                        isOpen &= wantsMore.test(JSON.readTree(record.value()));
                    }
                }
                consumer.commitSync();
            }
        }
    }
}
