/// The AsyncAPI document (3.0.0, in JSON) of what a worker reads and writes in Kafka: what
/// `apns-worker schema asyncapi` prints.
///
/// The schemas are those of `RecordSchema`. As the specification has it, `receive` and `send` are the worker's side:
/// who asks for notifications sends what it receives.
///
/// Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, and its Kafka bindings 0.5.0.
package struct AsyncAPIDocument: Sendable {
    /// A topic, or several.
    package struct RequestTopic: Sendable {
        /// The name, or the pattern of names.
        package var name: String
        package var isPattern: Bool

        package init(name: String, isPattern: Bool) {
            self.name = name
            self.isPattern = isPattern
        }
    }

    package struct Tier: Sendable {
        /// Its delay, as its configuration spells it: letters and digits.
        package var name: String
        package var topic: String

        package init(name: String, topic: String) {
            self.name = name
            self.topic = topic
        }
    }

    /// The worker's version.
    package var version: String
    package var groupID: String
    package var requests: [RequestTopic]
    package var results: String
    package var unregistered: String
    package var deadLetters: String
    package var tiers: [Tier]

    package init(
        version: String, groupID: String, requests: [RequestTopic], results: String, unregistered: String,
        deadLetters: String, tiers: [Tier]
    ) {
        self.version = version
        self.groupID = groupID
        self.requests = requests
        self.results = results
        self.unregistered = unregistered
        self.deadLetters = deadLetters
        self.tiers = tiers
    }

    /// One line for people.
    package static let summary = "all topics with their records: an AsyncAPI 3.0 document"

    /// The document, a JSON object; a newline at the end.
    package var text: String { tree.text }

    private static let bindingVersion: SchemaTree = "0.5.0"

    var tree: SchemaTree {
        [
            "asyncapi": "3.0.0",
            "info": [
                "title": "apns-worker", "version": .string(version),
                "description":
                    "Push requests from Kafka to Apple's APNs, and a result for each. Members and headers are only ever added to what the worker writes: ignore what you do not know.",
            ],
            "defaultContentType": "application/json",
            "channels": SchemaTree(members: channels.map { ($0.id, $0.tree) }),
            "operations": SchemaTree(members: channels.flatMap { operations($0) }),
            "components": ["messages": SchemaTree(members: Message.allCases.map { ($0.rawValue, $0.tree) })],
        ]
    }
}

// MARK: Channels and operations

extension AsyncAPIDocument {
    private struct Channel {
        var id: String
        /// `nil`: those that fit a pattern.
        var topic: String?
        var title: String
        var messages: [Message]
        var group: String?
        /// What the worker does with it, and the operation's name.
        var operations: [(action: String, id: String, summary: String)]

        var tree: SchemaTree {
            let address: SchemaTree = [
                "address": topic.map { .string($0) } ?? .null, "title": .string(title),
                "messages": SchemaTree(
                    members: messages.map { ($0.rawValue, ["$ref": "#/components/messages/\($0.rawValue)"]) }),
            ]
            guard let topic else { return address }
            return address.adding([
                "bindings": ["kafka": ["topic": .string(topic), "bindingVersion": AsyncAPIDocument.bindingVersion]]
            ])
        }
    }

    private var channels: [Channel] {
        var channels: [Channel] = []
        for (place, topic) in requests.enumerated() {
            let number = requests.count == 1 ? "" : "\(place + 1)"
            channels.append(
                Channel(
                    id: "requests\(number)", topic: topic.isPattern ? nil : topic.name,
                    title: topic.isPattern ? "Push requests: topics whose names match \(topic.name)" : "Push requests",
                    messages: [.payloadRequest, .envelopeRequest], group: groupID,
                    operations: [("receive", "takeRequests\(number)", "Sends the notifications that are asked for")]))
        }
        channels.append(
            Channel(
                id: "results", topic: results, title: "What became of each notification", messages: [.result],
                operations: [("send", "publishResult", "At least one for each notification")]))
        channels.append(
            Channel(
                id: "unregistered", topic: unregistered, title: "Dead device tokens", messages: [.deadToken],
                operations: [("send", "publishDeadToken", "One for each token that Apple calls dead")]))
        channels.append(
            Channel(
                id: "deadLetters", topic: deadLetters, title: "Records from which no notification can be read",
                messages: [.deadLetter],
                operations: [("send", "publishDeadLetter", "One for each such record")]))
        for tier in tiers {
            channels.append(
                Channel(
                    id: "retry\(tier.name)", topic: tier.topic,
                    title: "Notifications to be tried again after \(tier.name)",
                    messages: [.retry], group: groupID + ".retry",
                    operations: [
                        ("send", "putOff\(tier.name)", "Puts a notification off"),
                        ("receive", "takeAgain\(tier.name)", "Sends those that are due"),
                    ]))
        }
        return channels
    }

    private func operations(_ channel: Channel) -> [(String, SchemaTree)] {
        channel.operations.map { operation in
            let tree: SchemaTree = [
                "action": .string(operation.action), "channel": ["$ref": "#/channels/\(channel.id)"],
                "summary": .string(operation.summary),
                "messages": .array(
                    channel.messages.map { ["$ref": "#/channels/\(channel.id)/messages/\($0.rawValue)"] }),
            ]
            guard operation.action == "receive", let group = channel.group else { return (operation.id, tree) }
            let binding: SchemaTree = [
                "groupId": ["type": "string", "enum": [.string(group)]], "bindingVersion": Self.bindingVersion,
            ]
            return (operation.id, tree.adding(["bindings": ["kafka": binding]]))
        }
    }
}

// MARK: Messages

extension AsyncAPIDocument {
    /// A kind of record: key, headers and value.
    enum Message: String, CaseIterable {
        case payloadRequest, envelopeRequest, result, deadToken, deadLetter, retry

        var title: String {
            switch self {
            case .payloadRequest: "A request in payload form: one notification"
            case .envelopeRequest: "A request in envelope form: one notification for each device"
            case .result: "What became of one notification"
            case .deadToken: "A dead device token"
            case .deadLetter: "A record from which no notification can be read"
            case .retry: "A notification to be tried again"
            }
        }

        var key: SchemaTree {
            switch self {
            case .payloadRequest:
                [
                    "type": "string",
                    "description": .string(
                        "The device token, of 64 or more hex digits; anything, where push-device-token or apns-channel-id is there"
                    ),
                ]
            case .envelopeRequest: ["description": "Anything: it chooses the partition, and is in the results"]
            case .result:
                [
                    "type": "string", "maxLength": .number(Int64(RecordLimits.deviceToken)),
                    "description": "The device token in lower-case hex, or the channel id",
                ]
            case .deadToken:
                TextRule.deviceToken.schema(isMember: false).adding([
                    "description": "The device token in lower-case hex"
                ])
            case .deadLetter: ["description": "The record's own"]
            case .retry:
                [
                    "type": "string", "maxLength": .number(Int64(RecordLimits.deviceToken)),
                    "description": "The device token in lower-case hex, or the beginning of the channel id",
                ]
            }
        }

        var headers: RecordSchema? {
            switch self {
            case .payloadRequest: .requestHeaders
            case .envelopeRequest: .envelopeHeaders
            case .result: .resultHeaders
            case .deadToken: nil
            case .deadLetter: .deadLetterHeaders
            case .retry: .retryHeaders
            }
        }

        /// `nil`: any bytes.
        var value: RecordSchema? {
            switch self {
            case .payloadRequest, .retry: .payload
            case .envelopeRequest: .envelope
            case .result: .result
            case .deadToken: .unregistered
            case .deadLetter: nil
            }
        }

        var tree: SchemaTree {
            var tree: SchemaTree = ["name": .string(rawValue), "title": .string(title)]
            if value == nil { tree = tree.adding(["contentType": "application/octet-stream"]) }
            if let headers { tree = tree.adding(["headers": headers.tree]) }
            return tree.adding([
                "payload": value?.tree ?? ["description": "The record's own value, untouched"],
                "bindings": ["kafka": ["key": key, "bindingVersion": AsyncAPIDocument.bindingVersion]],
            ])
        }
    }
}
