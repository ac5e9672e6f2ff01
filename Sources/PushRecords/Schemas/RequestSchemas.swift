// The schemas of requests, in both forms, and of retry records, which are requests in payload form. What one of them
// says of a header is in its rule alone (`HeaderRule`); what they say of several headers together is here.

extension RecordSchema {
    /// The value of a request in payload form.
    static let payloadTree: SchemaTree = [
        "title":
            "A push request in payload form: the value of a record of apns.requests, which goes to Apple byte for byte",
        "description": .string(
            "Beyond what a schema can say: \(payloadLimits); nested 64 levels deep at most; \(halfSurrogates)"),
        "type": "object",
        "not": [
            "description": "What has these members is an envelope",
            "required": ["payload"], "anyOf": .array(targets.map { ["required": [.string($0)]] }),
            "not": ["required": ["aps"]],
        ],
    ]

    private static let payloadLimits = "4096 bytes at most, 5120 of voip and of a broadcast"
    private static let halfSurrogates = #"no escape of half a surrogate pair (\ud83d alone)"#
    private static let noneTwice = "stands twice"
    private static let expiresLater = "apns-expiration is 0 or later than"

    /// The headers of a request in payload form.
    static let requestHeadersTree: SchemaTree =
        SchemaTree.object([
            .init("title", "A push request in payload form: the headers of a record of apns.requests"),
            .init(
                "description",
                .string(
                    "Beyond what a schema can say: no header \(noneTwice); one without a value (null) counts as absent; "
                        + "push-app has \(HeaderName.bytes); \(expiresLater) push-not-before")),
        ])
        .adding([
            "type": "object",
            "propertyNames": [
                "description": "No other apns- or push- header than these, but those that results.copy_headers names",
                "anyOf": .array(
                    [.object([.init("not", ["pattern": "^([Aa][Pp][Nn][Ss]|[Pp][Uu][Ss][Hh])-"])])]
                        + [.object([.init("enum", SchemaTree(words: requestNames + ["\(ReplayWriter.header)"]))])]
                        + [["pattern": "^[Pp][Uu][Ss][Hh]-([Rr][Ee][Tt][Rr][Yy]|[Dd][Ll][Qq])-"]]),
            ],
            "properties": properties(KnownHeader.all.filter { !$0.isRetry }, isMember: false).adding(replayHeader),
        ])
        .adding(["allOf": .array(recordRules)])

    /// Of a request that was replayed, and of what comes of it; the parser takes any text.
    static let replayHeader: SchemaTree = .object([
        .init(
            "\(ReplayWriter.header)",
            [
                "type": "string",
                "description":
                    "Written by apns-worker replay: topic/partition/offset/index of where it was asked for first",
            ])
    ])

    private static let requestNames = KnownHeader.all.filter { !$0.isRetry }.map { $0.text.description }

    /// The headers of a request in envelope form.
    static let envelopeHeadersTree: SchemaTree = [
        "title": "A push request in envelope form: the headers of a record of apns.requests",
        "description": "What is said to Apple or to the worker stands in the envelope",
        "type": "object",
        "propertyNames": [
            "description": "No apns- or push- header, but those that results.copy_headers names",
            "anyOf": [
                ["not": ["pattern": "^([Aa][Pp][Nn][Ss]|[Pp][Uu][Ss][Hh])-"]],
                ["enum": SchemaTree(words: ["\(ReplayWriter.header)"])],
                ["pattern": "^[Pp][Uu][Ss][Hh]-([Rr][Ee][Tt][Rr][Yy]|[Dd][Ll][Qq])-"],
            ],
        ],
        "properties": replayHeader,
    ]

    /// The value of a request in envelope form.
    static let envelopeTree: SchemaTree =
        SchemaTree.object([
            .init("title", "A push request in envelope form: the value of a record of apns.requests"),
            .init(
                "description",
                .string(
                    "Beyond what a schema can say: no member \(noneTwice); the payload has \(payloadLimits), nested 63 levels deep "
                        + "at most, and \(halfSurrogates); app has \(HeaderName.bytes); \(expiresLater) not_before; a number is written in digits alone, 10 and "
                        + "not 10.0 or 1e1")),
        ])
        .adding([
            "type": "object",
            "additionalProperties": false,
            "required": ["payload"],
            "oneOf": .array(
                zip(targets, ["string", "array", "string"] as [SchemaTree]).map { name, type in
                    ["required": [.string(name)], "properties": .object([.init(name, ["type": type])])]
                }),
        ])
        .adding([
            "properties": [
                "payload": ["type": "object", "description": "What goes to Apple, byte for byte"],
                "device_token": HeaderName.deviceToken.rule.value.schema(isMember: true),
                "device_tokens": [
                    "type": ["array", "null"], "minItems": 1, "maxItems": .number(Int64(RequestParser.tokenLimit)),
                    "items": HeaderName.deviceToken.rule.value.schema(isMember: false),
                    "description": "One notification and one result for each, also where one stands twice",
                ],
                "channel_id": HeaderName.channelID.rule.schema(isMember: true),
                "app": HeaderName.app.rule.schema(isMember: true),
                "environment": HeaderName.environment.rule.schema(isMember: true),
                "not_before": [
                    "type": ["integer", "null"], "minimum": 0, "maximum": .number(Int64(UInt32.max)),
                    "description": .string(HeaderName.notBeforeMeaning),
                ],
                "headers": [
                    "type": ["object", "null"],
                    "additionalProperties": false,
                    "properties": properties(KnownHeader.all.filter(\.isOfEnvelope), isMember: true),
                ],
            ],
            "allOf": .array(envelopeRules),
        ])

    private static let targets = ["device_token", "device_tokens", "channel_id"]

    /// The headers of a retry record.
    static let retryHeadersTree: SchemaTree = [
        "title": "A notification to be tried again: the headers of a record of a retry topic",
        "type": "object",
        "required": SchemaTree(
            words: ([.pushType, .retryRequest, .retryAttempt, .retryDue, .retryFirst] as [HeaderName]).map {
                $0.text.description
            }),
        "properties": properties(KnownHeader.all, isMember: false).adding(replayHeader),
        "allOf": .array(recordRules),
    ]

    private static func properties(_ headers: [KnownHeader], isMember: Bool) -> SchemaTree {
        SchemaTree(members: headers.map { ($0.text.description, $0.rule.schema(isMember: isMember)) })
    }

    // MARK: Headers together

    private static func only(_ header: HeaderName, _ values: [SchemaTree]) -> SchemaTree {
        ["properties": .object([.init(header.text.description, ["enum": .array(values)])])]
    }

    private static func isThere(_ header: HeaderName) -> SchemaTree { ["required": [.string(header.text.description)]] }

    private static func isBackground(_ header: HeaderName = .pushType) -> SchemaTree {
        only(header, ["background"]).adding(isThere(header))
    }

    /// A broadcast's topic is the bundle id, without this.
    private static let noSuffix: SchemaTree = [
        "properties": .object([
            .init(
                HeaderName.topic.text.description,
                ["not": ["type": "string", "pattern": #".\.push-type\.liveactivity$"#]])
        ])
    ]

    private static let recordRules: [SchemaTree] = [
        ["if": isBackground(), "then": only(.priority, ["5"])],
        [
            "if": isThere(.channelID),
            "then": ["allOf": [only(.pushType, ["liveactivity"]), noSuffix, ["not": isThere(.deviceToken)]]],
        ],
    ]

    private static let envelopeRules: [SchemaTree] = [
        [
            "if": [
                "properties": ["headers": SchemaTree(members: [("type", "object")]).adding(isBackground())],
                "required": ["headers"],
            ],
            "then": ["properties": ["headers": only(.priority, [5, "5", nil])]],
        ],
        [
            "if": ["properties": ["channel_id": ["type": "string"]], "required": ["channel_id"]],
            "then": ["properties": ["headers": ["allOf": [only(.pushType, ["liveactivity", nil]), noSuffix]]]],
        ],
        [
            "description": "One apns-id is of one notification",
            "if": ["properties": ["device_tokens": ["type": "array", "minItems": 2]], "required": ["device_tokens"]],
            "then": ["properties": ["headers": only(.apnsID, [nil])]],
        ],
    ]
}
