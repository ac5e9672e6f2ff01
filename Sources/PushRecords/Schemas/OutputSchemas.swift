// The schemas of what the worker writes. Each says of a member what it is where it is there; none is ever null.

extension RecordSchema {
    private static func text(_ limit: Int, _ description: String? = nil, minLength: Int64 = 1) -> SchemaTree {
        let schema: SchemaTree = [
            "type": "string", "minLength": .number(minLength), "maxLength": .number(Int64(limit)),
        ]
        return description.map { schema.adding(["description": .string($0)]) } ?? schema
    }

    private static func integer(_ range: ClosedRange<Int64>, _ description: String? = nil) -> SchemaTree {
        let schema: SchemaTree = [
            "type": "integer", "minimum": .number(range.lowerBound), "maximum": .number(range.upperBound),
        ]
        return description.map { schema.adding(["description": .string($0)]) } ?? schema
    }

    private static func time(_ description: String) -> SchemaTree { integer(0...RecordTime.latestMs, description) }

    private static let outcomes: SchemaTree = ["enum": SchemaTree(words: Outcome.allCases.map(\.rawValue))]
    private static let environments: SchemaTree = [
        "enum": SchemaTree(words: PushEnvironment.allCases.map(\.text.description))
    ]
    private static let reason = text(RecordLimits.reason, "Apple's word, as far as it has one")

    /// The value of a result.
    static let resultTree: SchemaTree = [
        "title": "What became of one notification: the value of a record of apns.results",
        "description": "A member that there is nothing to say of is left out",
        "type": "object",
        "required": ["outcome", "attempts", "in_doubt", "requested_at_ms", "settled_at_ms", "request"],
        "properties": [
            "outcome": outcomes,
            "status": integer(0...Int64(UInt16.max), "The HTTP status of Apple's last answer"),
            "reason": reason,
            "detail": text(RecordLimits.detail, "For people"),
            "unregistered_at_ms": time("Since when the device token is dead: Apple's time, or that of the send"),
            "apns_id": [
                "type": "string", "minLength": 36, "maxLength": 36,
                "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$",
            ],
            "apns_unique_id": text(RecordLimits.uniqueID, "In Apple's Delivery Log; in development only"),
            "device_token": text(RecordLimits.deviceToken, "In lower-case hex; as written when it is not hex, and cut"),
            "channel_id": text(
                RecordLimits.channelID, "Only of a broadcast, which has no device token", minLength: 0),
            "apns_topic": text(RecordLimits.topicText),
            "app": text(RecordLimits.app),
            "environment": environments,
            "attempts": integer(0...Int64(Int32.max), "Sends, at most"),
            "in_doubt": integer(0...Int64(Int32.max), "Those of them that nobody knows the end of"),
            "requested_at_ms": time("The request record's timestamp; 0: unknown"),
            "sent_at_ms": time("The last send"),
            "settled_at_ms": time("When it was written"),
            "request": [
                "type": "object",
                "description": "Where it was asked for: deduplicate on it",
                "required": ["topic", "partition", "offset", "index"],
                "properties": [
                    "topic": text(RecordLimits.kafkaTopic),
                    "partition": integer(0...Int64(Int32.max)),
                    "offset": integer(0 ... .max),
                    "index": integer(0...Int64(RequestParser.tokenLimit - 1), "Place in the list of device tokens"),
                    "key": text(RecordLimits.key, "The record's, only when it is not the token; cut"),
                ],
            ],
        ],
    ]

    /// The headers of a result.
    static let resultHeadersTree: SchemaTree = [
        "title": "What became of one notification: the headers of a record of apns.results",
        "description":
            "Beside these, traceparent, tracestate and what results.copy_headers names, as the request has them",
        "type": "object",
        "required": ["outcome"],
        "properties": SchemaTree.object([.init("outcome", outcomes), .init("reason", reason)]).adding(replayHeader),
    ]

    /// The value of a dead token.
    static let unregisteredTree: SchemaTree = [
        "title": "A dead device token: the value of a record of apns.unregistered",
        "description": "A member that there is nothing to say of is left out",
        "type": "object",
        "required": ["device_token", "observed_at_ms"],
        "properties": [
            "device_token": text(RecordLimits.deviceToken, "In lower-case hex"),
            "apns_topic": text(RecordLimits.topicText),
            "app": text(RecordLimits.app),
            "environment": environments,
            "reason": reason,
            "unregistered_at_ms": time(
                "Delete the token only if it was registered before. Apple's time; where it gives none, when the notification was sent"
            ),
            "observed_at_ms": time("When the worker wrote this; nothing is deleted by it"),
        ],
    ]

    /// The headers of a dead letter.
    static let deadLetterHeadersTree: SchemaTree = [
        "title": "A record from which no notification can be read: the headers of a record of apns.dead-letters",
        "description": "Beside these, the record's own, untouched",
        "type": "object",
        "required": [
            "push-dlq-reason", "push-dlq-topic", "push-dlq-partition", "push-dlq-offset", "push-dlq-timestamp",
        ],
        "properties": [
            "push-dlq-reason": text(
                RecordLimits.reason,
                (DeadLetterReason.allCases.map(\.text.description) + ReducedRecord.outputReasons)
                    .joined(separator: ", ")),
            "push-dlq-detail": text(RecordLimits.detail, "For people"),
            "push-dlq-topic": TextRule.kafkaTopic.schema(isMember: false),
            "push-dlq-partition": number(9, "-1: a record of the worker's own that does not say it", orMinus: true),
            "push-dlq-offset": number(18, "-1: as for the partition", orMinus: true),
            "push-dlq-last-offset": number(18, "Of unreadable-batch: it stands for all up to here"),
            "push-dlq-timestamp": number(18, "Milliseconds since 1970, as the record has it", orMinus: true),
            "push-dlq-truncated": number(
                18, "Bytes of the value, where the broker refused the record as too large: cut, as are the headers"),
            "push-dlq-key-truncated": number(18, "Bytes of the key, where it was cut, too"),
        ],
    ]

    private static func number(_ digits: Int, _ description: String, orMinus: Bool = false) -> SchemaTree {
        HeaderRule(.digits(digits, orMinus: orMinus), description).schema(isMember: false)
    }
}
