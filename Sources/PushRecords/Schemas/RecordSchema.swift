/// The JSON Schemas (draft 2020-12) of the records: what `apns-worker schema NAME` prints.
///
/// A record that the worker writes may get more members, never other ones; an envelope has only those that are here.
public enum RecordSchema: String, CaseIterable, Sendable {
    /// The envelope form of a request: the value of its record.
    case envelope = "request-envelope"
    /// The headers of a request in payload form, as an object of their texts.
    case requestHeaders = "request-headers"
    /// The value of a record of `apns.results`.
    case result
    /// The headers of a record of `apns.results`, as an object of their texts.
    case resultHeaders = "result-headers"
    /// The value of a record of `apns.unregistered`.
    case unregistered
    /// The headers of a record of a retry topic, as an object of their texts.
    case retryHeaders = "retry-headers"
    /// The headers of a record of `apns.dead-letters`, as an object of their texts.
    case deadLetterHeaders = "dead-letter-headers"

    /// One line for people.
    public var summary: String {
        switch self {
        case .envelope: "a request in envelope form: the value"
        case .requestHeaders: "a request in payload form: its headers, as an object of texts"
        case .result: "a record of apns.results: the value"
        case .resultHeaders: "a record of apns.results: its headers, as an object of texts"
        case .unregistered: "a record of apns.unregistered: the value"
        case .retryHeaders: "a record of a retry topic: its headers, as an object of texts"
        case .deadLetterHeaders: "a record of apns.dead-letters: its headers, as an object of texts"
        }
    }

    /// The schema, a JSON object; a newline at the end.
    public var text: String {
        switch self {
        case .envelope: Self.envelopeText
        case .requestHeaders: Self.requestHeadersText
        case .result: Self.resultText
        case .resultHeaders: Self.resultHeadersText
        case .unregistered: Self.unregisteredText
        case .retryHeaders: Self.retryHeadersText
        case .deadLetterHeaders: Self.deadLetterHeadersText
        }
    }

    private static let envelopeText = #"""
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "A push request in envelope form: the value of a record of apns.requests",
          "type": "object",
          "additionalProperties": false,
          "required": ["payload"],
          "oneOf": [
            {"required": ["device_token"], "properties": {"device_token": {"type": "string"}}},
            {"required": ["device_tokens"], "properties": {"device_tokens": {"type": "array"}}},
            {"required": ["channel_id"], "properties": {"channel_id": {"type": "string"}}}
          ],
          "properties": {
            "payload": {"type": "object", "description": "What goes to Apple, byte for byte"},
            "device_token": {"type": ["string", "null"], "pattern": "^([0-9A-Fa-f]{2}){1,100}$"},
            "device_tokens": {
              "type": ["array", "null"], "minItems": 1, "maxItems": 10000,
              "items": {"type": "string", "pattern": "^([0-9A-Fa-f]{2}){1,100}$"}
            },
            "channel_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 200},
            "app": {
              "type": ["string", "null"], "minLength": 1, "maxLength": 100,
              "description": "An app of the worker's configuration"
            },
            "environment": {"enum": ["production", "development", null]},
            "headers": {
              "type": ["object", "null"],
              "additionalProperties": false,
              "properties": {
                "apns-topic": {
                  "type": ["string", "null"], "minLength": 1, "maxLength": 255,
                  "description": "Sent as it is. Absent: the app's only bundle id, with the suffix that apns-push-type wants"
                },
                "apns-push-type": {
                  "enum": ["alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location",
                           "mdm", "pushtotalk", "voip", "widgets", null]
                },
                "apns-priority": {"enum": [1, 5, 10, "1", "5", "10", null]},
                "apns-expiration": {"type": ["integer", "string", "null"], "minimum": 0, "maximum": 4294967295},
                \#(texts(#"["string", "null"]"#, indent: 8))
                "apns-id": {"type": ["string", "null"], "minLength": 36, "maxLength": 36}
              }
            }
          }
        }

        """#

    private static let resultText = """
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "What became of one notification: the value of a record of apns.results",
          "type": "object",
          "required": ["outcome", "attempts", "in_doubt", "requested_at_ms", "settled_at_ms", "request"],
          "properties": {
            "outcome": {"enum": ["accepted", "unregistered", "rejected", "invalid", "expired", "abandoned"]},
            "status": {"type": "integer", "description": "The HTTP status of Apple's answer"},
            "reason": {"type": "string", "maxLength": 64, "description": "Apple's word, as far as it has one"},
            "detail": {"type": "string", "maxLength": 256, "description": "For people"},
            "unregistered_at_ms": {"type": "integer"},
            "apns_id": {"type": "string", "minLength": 36, "maxLength": 36},
            "apns_unique_id": {"type": "string", "maxLength": 100},
            "device_token": {"type": "string", "maxLength": 200, "description": "As written when it is not hex, and cut"},
            "channel_id": {
              "type": "string", "maxLength": 200, "description": "Only of a broadcast, which has no device token"
            },
            "apns_topic": {"type": "string", "maxLength": 256},
            "app": {"type": "string", "maxLength": 100},
            "environment": {"enum": ["production", "development"]},
            "attempts": {"type": "integer", "minimum": 0},
            "in_doubt": {"type": "integer", "minimum": 0},
            "requested_at_ms": {
              "type": "integer", "minimum": 0, "description": "The request record's timestamp; 0: unknown"
            },
            "sent_at_ms": {"type": "integer"},
            "settled_at_ms": {"type": "integer"},
            "request": {
              "type": "object",
              "required": ["topic", "partition", "offset", "index"],
              "properties": {
                "topic": {"type": "string", "maxLength": 249},
                "partition": {"type": "integer", "minimum": 0},
                "offset": {"type": "integer", "minimum": 0},
                "index": {"type": "integer", "minimum": 0, "maximum": 9999},
                "key": {"type": "string", "maxLength": 512, "description": "Only when it is not the token; cut"}
              }
            }
          }
        }

        """

    private static let unregisteredText = """
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "A dead device token: the value of a record of apns.unregistered",
          "type": "object",
          "required": ["device_token", "observed_at_ms"],
          "properties": {
            "device_token": {"type": "string", "maxLength": 200},
            "apns_topic": {"type": "string", "maxLength": 256},
            "app": {"type": "string", "maxLength": 100},
            "environment": {"enum": ["production", "development"]},
            "reason": {"type": "string", "maxLength": 64},
            "unregistered_at_ms": {
              "type": "integer", "description": "Delete the token only if it was registered before"
            },
            "observed_at_ms": {"type": "integer"}
          }
        }

        """
}
