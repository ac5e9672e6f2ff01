// shop SERVERS REQUESTS RESULTS UNREGISTERED: a service that sends notifications, in Go with confluent-kafka-go.
//
// Sends an order notification to two devices and news to three, reads the results, and deletes the device that is
// unregistered. Exits with 0 if everything is as expected. It uses only what README.md documents.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/confluentinc/confluent-kafka-go/kafka"
)

// A place identifies the notification of a result.
type place struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	Offset    int64  `json:"offset"`
	Index     int    `json:"index"`
}

// A result has the members that the shop reads.
type result struct {
	DeviceToken string `json:"device_token"`
	Outcome     string `json:"outcome"`
	Reason      string `json:"reason"`
	Request     place  `json:"request"`
}

// A deadToken is a device token that APNs reported as unregistered.
type deadToken struct {
	DeviceToken      string `json:"device_token"`
	UnregisteredAtMs *int64 `json:"unregistered_at_ms"`
}

type object map[string]any

func main() {
	log.SetFlags(0)
	if len(os.Args) != 5 {
		log.Fatal("usage: shop SERVERS REQUESTS RESULTS UNREGISTERED")
	}
	servers, requests, results, unregistered := os.Args[1], os.Args[2], os.Args[3], os.Args[4]

	// The shop's devices: token -> time of its last registration. The last token has been unregistered since 2020.
	zeros := strings.Repeat("0", 56)
	gone := "fa174101" + zeros
	tokens := []string{"00000001" + zeros, "00000002" + zeros, "00000003" + zeros, "00000004" + zeros, gone}
	registered := map[string]int64{}
	for _, token := range tokens {
		registered[token] = time.Now().UnixMilli()
	}
	registered[gone] = 1_500_000_000_000

	written, err := produce(servers, requests, tokens)
	if err != nil {
		log.Fatalf("a request was not written: %v", err)
	}

	// A result that is repeated after a crash has the same request. The topic also contains results of other services.
	outcomes := map[place]result{}
	err = consume(servers, results, func(value []byte) (bool, error) {
		var result result
		if err := json.Unmarshal(value, &result); err != nil {
			return false, err
		}
		record := result.Request
		record.Index = 0
		if !written[record] {
			return true, nil
		}
		outcomes[result.Request] = result
		fmt.Printf("%s %s %.8s…\n", result.Outcome, result.Reason, result.DeviceToken)
		return len(outcomes) < len(tokens), nil
	})
	if err != nil {
		log.Fatal(err)
	}

	err = consume(servers, unregistered, func(value []byte) (bool, error) {
		var dead deadToken
		if err := json.Unmarshal(value, &dead); err != nil {
			return false, err
		}
		at, isKnown := registered[dead.DeviceToken]
		// A token that was registered again since then is valid.
		if !isKnown || dead.UnregisteredAtMs == nil || at >= *dead.UnregisteredAtMs {
			return true, nil
		}
		delete(registered, dead.DeviceToken)
		fmt.Printf("forgotten: %.8s…, gone since %d\n", dead.DeviceToken, *dead.UnregisteredAtMs)
		return false, nil
	})
	if err != nil {
		log.Fatal(err)
	}

	isRight := len(registered) == 4
	for _, result := range outcomes {
		isRight = isRight && (result.Outcome == "unregistered") == (result.DeviceToken == gone) &&
			(result.Outcome == "accepted") == (result.DeviceToken != gone)
	}
	if !isRight {
		log.Fatal("the results or the devices are not as expected")
	}
	fmt.Println("all is well")
}

// Writes all requests, waits for their acknowledgements, and returns their places, by which results are matched.
func produce(servers, topic string, tokens []string) (map[place]bool, error) {
	producer, err := kafka.NewProducer(&kafka.ConfigMap{
		"bootstrap.servers": servers,
		// acks=all, and retries neither duplicate nor reorder records.
		"enable.idempotence": true,
		// The partitioner of Java clients, so that a device has one partition with any client.
		"partitioner": "murmur2_random",
	})
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	reports := make(chan kafka.Event, 16)
	send := func(key []byte, value any, headers []kafka.Header) error {
		bytes, err := json.Marshal(value)
		if err != nil {
			return err
		}
		to := kafka.TopicPartition{Topic: &topic, Partition: kafka.PartitionAny}
		return producer.Produce(&kafka.Message{TopicPartition: to, Key: key, Value: bytes, Headers: headers}, reports)
	}

	// Payload form: the key is the device token, and the value is the payload, which is sent byte for byte.
	for number, token := range tokens[:2] {
		alert := object{"title": fmt.Sprintf("Order %d", number), "body": "is on its way \U0001F69A"}
		err := send([]byte(token), object{"aps": object{"alert": alert, "sound": "default"}}, []kafka.Header{
			{Key: "apns-topic", Value: []byte("com.example.shop")},
			{Key: "apns-collapse-id", Value: []byte(fmt.Sprintf("order-%d", number))},
			{Key: "apns-expiration", Value: []byte(fmt.Sprint(time.Now().Add(time.Hour).Unix()))},
		})
		if err != nil {
			return nil, err
		}
	}
	// Envelope form: one record for several devices, with one result for each device.
	err = send(nil, object{
		"device_tokens": tokens[2:],
		"headers":       object{"apns-topic": "com.example.shop", "apns-push-type": "background"},
		"payload":       object{"aps": object{"content-available": 1}},
	}, nil)
	if err != nil {
		return nil, err
	}
	written := map[place]bool{}
	for len(written) < 3 {
		select {
		case event := <-reports:
			at := event.(*kafka.Message).TopicPartition
			if at.Error != nil {
				return nil, at.Error
			}
			written[place{Topic: topic, Partition: int(at.Partition), Offset: int64(at.Offset)}] = true
		case <-time.After(30 * time.Second):
			return nil, fmt.Errorf("not acknowledged within 30 s")
		}
	}
	return written, nil
}

// Passes the values of the topic's records to the reader until it has enough, and commits the passed records.
func consume(servers, topic string, wantsMore func([]byte) (bool, error)) error {
	consumer, err := kafka.NewConsumer(&kafka.ConfigMap{
		"bootstrap.servers": servers, "group.id": "shop." + topic, "auto.offset.reset": "earliest",
		"enable.auto.commit": false,
	})
	if err != nil {
		return err
	}
	defer consumer.Close()
	if err := consumer.Subscribe(topic, nil); err != nil {
		return err
	}
	deadline := time.Now().Add(60 * time.Second)
	for time.Now().Before(deadline) {
		var message *kafka.Message
		switch event := consumer.Poll(1000).(type) {
		case *kafka.Message:
			message = event
		case kafka.Error:
			log.Printf("%s: %v", topic, event) // librdkafka retries
			continue
		default:
			continue
		}
		isOpen := true
		if len(message.Value) > 0 {
			if isOpen, err = wantsMore(message.Value); err != nil {
				return err
			}
		}
		if _, err := consumer.CommitMessage(message); err != nil {
			return err
		}
		if !isOpen {
			return nil
		}
	}
	return fmt.Errorf("%s: not all records arrived within 60 s", topic)
}
