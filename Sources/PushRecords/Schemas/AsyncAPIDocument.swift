import JSON

/// The AsyncAPI document (3.0.0, in JSON) of every topic that a worker reads and writes: what `apns-worker schema
/// asyncapi` prints.
///
/// The document is `asyncapi.json` with the names of a configuration and the schemas of `RecordSchema` filled in. As
/// the specification has it, `receive` and `send` are the worker's side: a producer of requests sends what the worker
/// receives.
///
/// Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, and its Kafka bindings 0.5.0.
package struct AsyncAPIDocument: Sendable {
    /// A request topic, or a pattern that matches several.
    package struct RequestTopic: Sendable {
        /// The name, or the pattern of names.
        package var name: String
        package var isPattern: Bool

        package init(name: String, isPattern: Bool) {
            self.name = name
            self.isPattern = isPattern
        }
    }

    /// A retry topic.
    package struct Tier: Sendable {
        /// The delay as the configuration spells it: letters and digits.
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
    ///
    /// A line `"$NAME": {}` of the file stands for several members, and a value `"$NAME"` for one value.
    package var text: String {
        var filled = ""
        for line in String(decoding: PackageResources.asyncapi_json, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: "\"$", maxSplits: 1)
            guard parts.count == 2, !parts[1].hasPrefix("ref\"") else {
                filled += line + "\n"
                continue
            }
            // Each line of what is filled in stands as far to the right as the line that it replaces.
            let indent = line.prefix { $0 == " " }
            let comma = line.hasSuffix(",") ? "," : ""
            let name = parts[1].prefix { $0 != "\"" }
            let text: String
            switch name {
            case "channels":
                let channels = requests.indices.map { channel(ofRequests: $0) } + tiers.map { channel(of: $0) }
                text = channels.joined(separator: ",\n")
            case "operations":
                let all = requests.indices.map { operation(ofRequests: $0) } + tiers.map { operations(of: $0) }
                text = all.joined(separator: ",\n")
            default: text = parts[0].dropFirst(indent.count) + value(name)
            }
            for line in (text + comma).split(separator: "\n") { filled += indent + line + "\n" }
        }
        return filled
    }

    /// The JSON that stands for `"$NAME"`.
    private func value(_ name: Substring) -> String {
        switch name {
        case "version": return Self.quoted(version)
        case "results": return Self.quoted(results)
        case "unregisteredTopic": return Self.quoted(unregistered)
        case "deadLetters": return Self.quoted(deadLetters)
        default:
            guard let schema = RecordSchema(rawValue: String(name)) else { preconditionFailure("no schema \(name)") }
            // Without `$schema`: AsyncAPI reads schemas as draft 7.
            let lines = schema.text.split(separator: "\n")
            return lines.filter { !$0.hasPrefix("  \"$schema\"") }.joined(separator: "\n")
        }
    }

    private static func quoted(_ text: String) -> String {
        var json = JSONWriter()
        json.value(text)
        return json.text
    }
}

// MARK: Channels and operations of as many topics as there are

extension AsyncAPIDocument {
    /// What distinguishes the names of several request topics.
    private func number(_ place: Int) -> String { requests.count == 1 ? "" : "\(place + 1)" }

    private func channel(ofRequests place: Int) -> String {
        let topic = requests[place]
        let name = Self.quoted(topic.name)
        let title = topic.isPattern ? "Push requests: topics whose names match \(topic.name)" : "Push requests"
        // A pattern has no address: it stands for topics that need not be there yet.
        let bindings = #""bindings": {"kafka": {"topic": \#(name), "bindingVersion": "0.5.0"}}"#
        return #"""
            "requests\#(number(place))": {
              "address": \#(topic.isPattern ? "null" : name),
              "title": \#(Self.quoted(title)),
              "messages": {
                "payloadRequest": {"$ref": "#/components/messages/payloadRequest"},
                "envelopeRequest": {"$ref": "#/components/messages/envelopeRequest"}
              }\#(topic.isPattern ? "" : ",\n  \(bindings)")
            }
            """#
    }

    private func operation(ofRequests place: Int) -> String {
        let channel = "#/channels/requests\(number(place))"
        return #"""
            "takeRequests\#(number(place))": {
              "action": "receive",
              "channel": {"$ref": "\#(channel)"},
              "summary": "Sends the notifications that are asked for",
              "messages": [
                {"$ref": "\#(channel)/messages/payloadRequest"},
                {"$ref": "\#(channel)/messages/envelopeRequest"}
              ],
              \#(Self.groupBinding(groupID))
            }
            """#
    }

    private func channel(of tier: Tier) -> String {
        #"""
        "retry\#(tier.name)": {
          "address": \#(Self.quoted(tier.topic)),
          "title": "Notifications to be tried again after \#(tier.name)",
          "messages": {"retry": {"$ref": "#/components/messages/retry"}},
          "bindings": {"kafka": {"topic": \#(Self.quoted(tier.topic)), "bindingVersion": "0.5.0"}}
        }
        """#
    }

    private func operations(of tier: Tier) -> String {
        let channel = "#/channels/retry\(tier.name)"
        return #"""
            "putOff\#(tier.name)": {
              "action": "send",
              "channel": {"$ref": "\#(channel)"},
              "summary": "Puts a notification off",
              "messages": [{"$ref": "\#(channel)/messages/retry"}]
            },
            "takeAgain\#(tier.name)": {
              "action": "receive",
              "channel": {"$ref": "\#(channel)"},
              "summary": "Sends those that are due",
              "messages": [{"$ref": "\#(channel)/messages/retry"}],
              \#(Self.groupBinding(groupID + ".retry"))
            }
            """#
    }

    private static func groupBinding(_ group: String) -> String {
        let id = #"{"type": "string", "enum": [\#(quoted(group))]}"#
        return #""bindings": {"kafka": {"groupId": \#(id), "bindingVersion": "0.5.0"}}"#
    }
}
