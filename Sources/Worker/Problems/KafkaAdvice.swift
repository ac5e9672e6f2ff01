internal import Kafka

enum Advice {
    /// Returns the cause and the advice for an error that prevents the worker from communicating with any broker.
    static func connecting(
        _ error: KafkaError, isSCRAMCorrect: Bool = KafkaLibrary.hasCorrectSCRAM
    ) -> (cause: String, advice: String) {
        if let mismatch = otherProtocol(error.text) { return mismatch }
        guard error.code == .authentication else {
            return (error.text, "check kafka.bootstrap_servers, the brokers and the network")
        }
        let login =
            error.text.contains("kafka.oauth.command")
            ? "run the command in a shell, as the worker's user; the worker's standard error has its messages"
            // A broker answers `invalid_token` for a token that has expired (RFC 7628, section 3.2.2).
            : error.text.contains("OAUTHBEARER") || error.text.contains("invalid_token")
                ? "check the token endpoint and sasl.oauthbearer.… in kafka.librdkafka, or kafka.oauth.command"
                : "check sasl.mechanism, sasl.username and sasl.password in kafka.librdkafka"
        guard error.text.contains("SCRAM"), !isSCRAMCorrect else { return (error.text, login) }
        return (
            error.text,
            "librdkafka before 2.6.1 cannot log in to Kafka 4 with SCRAM: use PLAIN over TLS or a newer librdkafka; "
                + "with an older Kafka, \(login)"
        )
    }

    /// Returns the cause and the advice for a port that does not speak the protocol of `security.protocol`, or `nil`
    /// for another error. librdkafka has no error code for this mismatch. Without TLS, it reports the first four bytes
    /// of the answer as the size of a response.
    private static func otherProtocol(_ text: String) -> (cause: String, advice: String)? {
        let usesTLS = "if the listener uses TLS, set security.protocol in kafka.librdkafka to ssl or sasl_ssl"
        let server = text.firstRange(of: "Receive failed").map { text[..<$0.lowerBound] } ?? ""
        let number = text.firstRange(of: "Invalid response size ").map {
            text[$0.upperBound...].prefix(while: \.isNumber)
        }
        switch number.flatMap({ UInt32($0) }) {
        case 0x4854_5450?:  // "HTTP"
            return (
                "\(server)the port answers with HTTP",
                "set kafka.bootstrap_servers to a Kafka listener (by default port 9092)"
            )
        case let size? where size >> 16 == 0x1503: return ("\(server)the port answers with a TLS alert", usesTLS)
        default: break
        }
        if text.contains("connecting to a SSL listener") {
            return (text, "check kafka.bootstrap_servers; \(usesTLS)")
        }
        guard text.contains("SSL_HANDSHAKE") else { return nil }
        let noTLS =
            "set kafka.bootstrap_servers to a listener with TLS, or security.protocol in kafka.librdkafka to plaintext "
            + "or sasl_plaintext"
        if text.contains("wrong version number") { return ("the port does not answer with TLS: \(text)", noTLS) }
        let ends = ["Disconnected", "unexpected eof"]
        guard ends.contains(where: text.contains) else { return nil }
        return (
            "the port ends the TLS handshake: \(text)",
            "check the brokers' logs, the client certificate, and whether the listener uses TLS; if it does not, \(noTLS)"
        )
    }

    static func writing(_ topic: String, _ code: KafkaCode) -> String {
        switch code {
        // Brokers report this error for a deleted topic too, if the user may not create topics.
        case .topicAuthorizationFailed: "grant WRITE on topic \(topic), or create it if it was deleted"
        case .clusterAuthorizationFailed: "grant IDEMPOTENT_WRITE on the cluster, or WRITE on topic \(topic)"
        case .noResources: KafkaCode.roomForThreads
        case .invalidTimestamp: "compare this machine's clock with the clocks of the brokers"
        case .messageTooLarge: "raise max.message.bytes of topic \(topic) to at least 2048"
        case .policyViolation, .invalidRecord: "check which policy of the brokers rejects records of topic \(topic)"
        case _ where code.isUnknownTopic: "create topic \(topic)"
        default: "check topic \(topic) and the brokers' logs"
        }
    }

    static func reading(_ topic: String, group: String, _ code: KafkaCode) -> String {
        switch code {
        case .topicAuthorizationFailed: "grant READ on topic \(topic)"
        case .badCompression, .badMessage:
            "a batch is damaged, or too large when decompressed: check the compression of the producers of topic "
                + "\(topic); to skip the batch and lose its records, delete the partition's records up to and including "
                + "it (kafka-delete-records.sh)"
        case .notImplemented:
            "this librdkafka does not support the compression of a batch: install a librdkafka that does, or change "
                + "compression.type of the producers of topic \(topic)"
        case _ where code.isUnknownTopic: "create topic \(topic), or remove it from the configuration"
        default: self.group(group, code)
        }
    }

    static func group(_ name: String, _ code: KafkaCode) -> String {
        switch code {
        case .noResources: KafkaCode.roomForThreads
        case .groupAuthorizationFailed: "grant READ on group \(name)"
        case .offsetMetadataTooLarge: "set offset.metadata.max.bytes of the brokers to 4096, which is Kafka's default"
        case .coordinatorNotAvailable, .notCoordinator, .waitingForCoordinator, .timedOut, .transport:
            "check the broker that coordinates group \(name)"
        default: "check group \(name) and the brokers' logs"
        }
    }
}
