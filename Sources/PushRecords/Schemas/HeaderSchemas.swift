// The schemas of records' headers. A record is checked by an object of its headers, each as text; headers that are not
// here are of whoever wrote them.

extension RecordSchema {
    /// Apple's headers of a request, as members of `properties`.
    private static let appleHeaders = #"""
        "apns-topic": {
              "type": "string", "minLength": 1, "maxLength": 255,
              "description": "Sent as it is. Absent: the app's only bundle id, with the suffix that apns-push-type wants"
            },
            "apns-push-type": {
              "enum": ["alert", "background", "complication", "controls", "fileprovider", "liveactivity", "location", "mdm",
                       "pushtotalk", "voip", "widgets"]
            },
            "apns-priority": {"enum": ["1", "5", "10"]},
            "apns-expiration": {"type": "string", "pattern": "^[0-9]{1,18}$"},
            \#(texts(#""string""#, indent: 4))
            "apns-id": {"type": "string", "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"},
            "apns-channel-id": {
              "type": "string", "minLength": 1, "maxLength": 200,
              "description": "A broadcast: apns-topic is the bundle id alone, apns-push-type liveactivity"
            }
        """#

    /// A line for each text header, at a place with so many spaces before it.
    static func texts(_ type: StaticString, indent: Int) -> String {
        TextHeader.allCases.map(\.row).map { row in
            #""\#(row.name)": {"type": \#(type), "minLength": 1, "maxLength": \#(row.limit)},"#
        }.joined(separator: "\n" + String(repeating: " ", count: indent))
    }

    /// Of the names that begin like Apple's headers or the worker's, those that there are; and all others.
    private static let requestNames: String = {
        let known = KnownHeader.all.filter { !$0.isRetry }.map { $0.text.description }
        return "^(?!(?:[Aa][Pp][Nn][Ss]|[Pp][Uu][Ss][Hh])-)|^(?:\(known.joined(separator: "|")))$|"
            + "^[Pp][Uu][Ss][Hh]-(?:[Rr][Ee][Tt][Rr][Yy]|[Dd][Ll][Qq])-"
    }()

    static let requestHeadersText = #"""
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "A push request in payload form: the headers of a record of apns.requests",
          "type": "object",
          "propertyNames": {
            "pattern": "\#(requestNames)",
            "description": "No other apns- or push- header, but those that results.copy_headers names"
          },
          "properties": {
            \#(appleHeaders),
            "push-device-token": {"type": "string", "pattern": "^([0-9A-Fa-f]{2}){1,100}$"},
            "push-app": {
              "type": "string", "minLength": 1, "maxLength": 100, "description": "An app of the worker's configuration"
            },
            "push-environment": {"enum": ["production", "development"]}
          }
        }

        """#

    static let resultHeadersText = #"""
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "What became of one notification: the headers of a record of apns.results",
          "type": "object",
          "required": ["outcome"],
          "properties": {
            "outcome": {"enum": ["accepted", "unregistered", "rejected", "invalid", "expired", "abandoned"]},
            "reason": {
              "type": "string", "minLength": 1, "maxLength": 64, "description": "Apple's word, as far as it has one"
            }
          }
        }

        """#

    static let retryHeadersText = #"""
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "A notification to be tried again: the headers of a record of a retry topic",
          "type": "object",
          "required": ["apns-push-type", "push-retry-request", "push-retry-attempt", "push-retry-due-ms", "push-retry-first-ms"],
          "properties": {
            \#(appleHeaders),
            "push-device-token": {
              "type": "string", "pattern": "^([0-9A-Fa-f]{2}){1,100}$",
              "description": "Missing where the key is the token: 64 or more hex digits, and no apns-channel-id"
            },
            "push-app": {
              "type": "string", "minLength": 1, "maxLength": 100, "description": "An app of the worker's configuration"
            },
            "push-environment": {"enum": ["production", "development"]},
            "push-retry-request": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}/[0-9]+/[0-9]+/[0-9]+$"},
            "push-retry-attempt": {"type": "string", "pattern": "^[0-9]{1,7}$"},
            "push-retry-due-ms": {"type": "string", "pattern": "^[0-9]{1,15}$", "description": "0: at once"},
            "push-retry-first-ms": {"type": "string", "pattern": "^[0-9]{1,15}$", "description": "0: unknown"},
            "push-retry-key": {
              "type": "string", "maxLength": 512, "description": "The original record's, when it is not the token"
            },
            "push-retry-reason": {"type": "string", "minLength": 1, "maxLength": 64},
            "push-retry-sends": {"type": "string", "pattern": "^[0-9]{1,7}$"},
            "push-retry-in-doubt": {"type": "string", "pattern": "^[0-9]{1,7}$"},
            "push-retry-tried": {
              "type": "string", "minLength": 1, "maxLength": 100,
              "description": "The app of the other environment, which answered BadDeviceToken before"
            }
          }
        }

        """#

    static let deadLetterHeadersText = #"""
        {
          "$schema": "https://json-schema.org/draft/2020-12/schema",
          "title": "A record from which no notification can be read: the headers of a record of apns.dead-letters",
          "type": "object",
          "required": ["push-dlq-reason", "push-dlq-topic", "push-dlq-partition", "push-dlq-offset", "push-dlq-timestamp"],
          "properties": {
            "push-dlq-reason": {
              "type": "string", "minLength": 1,
              "maxLength": 64,
              "description": "tombstone, not-json, no-device-token, bad-envelope, too-many-tokens, bad-retry-headers, worker-crashed, unreadable-headers, unreadable-batch, output-too-large, output-refused"
            },
            "push-dlq-detail": {"type": "string", "maxLength": 256, "description": "For people"},
            "push-dlq-topic": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,249}$"},
            "push-dlq-partition": {"type": "string", "pattern": "^[0-9]{1,10}$"},
            "push-dlq-offset": {"type": "string", "pattern": "^[0-9]{1,19}$"},
            "push-dlq-last-offset": {
              "type": "string", "pattern": "^[0-9]{1,19}$", "description": "Of unreadable-batch: it stands for all up to here"
            },
            "push-dlq-timestamp": {
              "type": "string", "pattern": "^-?[0-9]{1,19}$", "description": "Milliseconds since 1970, as the record has it"
            },
            "push-dlq-truncated": {
              "type": "string", "pattern": "^[0-9]{1,18}$",
              "description": "Bytes of the value, where the broker refused the record as too large: cut, as are the headers"
            },
            "push-dlq-key-truncated": {
              "type": "string", "pattern": "^[0-9]{1,18}$", "description": "Bytes of the key, where it was cut, too"
            }
          }
        }

        """#
}
