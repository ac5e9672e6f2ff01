import JSON

/// The AsyncAPI document (3.0.0, in JSON) of every topic that a worker reads and writes, as `apns-worker schema
/// asyncapi` prints it.
///
/// It is `asyncapi.json` with the names of a configuration and the schemas of `RecordSchema` filled in. `receive` and
/// `send` are the worker's side, as the specification demands.
///
/// Source: https://www.asyncapi.com/docs/reference/specification/v3.0.0, and its Kafka bindings 0.5.0.
package struct AsyncAPIDocument: Sendable {
    /// The worker's version.
    private let version: String
    private let groupID: String
    private let requests: [(name: String, isPattern: Bool)]
    private let results: String
    private let unregistered: String
    private let deadLetters: String
    private let tiers: [(name: String, topic: String)]

    /// - Parameters:
    ///   - requests: request topics, or patterns that match several.
    ///   - tiers: retry topics by delay as the configuration spells it: letters and digits.
    package init(
        version: String, groupID: String, requests: [(name: String, isPattern: Bool)], results: String,
        unregistered: String, deadLetters: String, tiers: [(name: String, topic: String)]
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
    /// In the file a line `"$NAME": {}` stands for several members, and a value `"$NAME"` for one value.
    package var text: String {
        var filled = ""
        for line in String(decoding: PackageResources.asyncapi_json, as: UTF8.self).split(separator: "\n") {
            let parts = line.split(separator: "\"$", maxSplits: 1)
            guard parts.count == 2, !parts[1].hasPrefix("ref\"") else {
                filled += line + "\n"
                continue
            }
            // Each line that is filled in is indented like the line that it replaces.
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

// MARK: Channels and operations of request and retry topics

extension AsyncAPIDocument {
    /// What distinguishes the names of several request topics.
    private func number(_ index: Int) -> String { requests.count == 1 ? "" : "\(index + 1)" }

    private func channel(ofRequests index: Int) -> String {
        let (topic, isPattern) = requests[index]
        return Self.channel(
            "requests\(number(index))", isPattern ? nil : topic,
            title: isPattern ? "Push requests: topics whose names match \(topic)" : "Push requests",
            messages: ["payloadRequest", "envelopeRequest"])
    }

    private func channel(of tier: (name: String, topic: String)) -> String {
        Self.channel(
            "retry\(tier.name)", tier.topic, title: "Notifications to be tried again after \(tier.name)",
            messages: ["retry"])
    }

    /// - Parameter topic: `nil` for a pattern, which has no address: its topics need not exist yet.
    private static func channel(_ name: String, _ topic: String?, title: String, messages: [String]) -> String {
        let references = messages.map { "\"\($0)\": {\"$ref\": \"#/components/messages/\($0)\"}" }
        let kafka = topic.map { #"{"topic": \#(quoted($0)), "bindingVersion": "0.5.0"}"# }
        return #"""
            "\#(name)": {
              "address": \#(topic.map(quoted) ?? "null"),
              "title": \#(quoted(title)),
              "messages": {
                \#(references.joined(separator: ",\n    "))
              }\#(kafka.map { ",\n  \"bindings\": {\"kafka\": \($0)}" } ?? "")
            }
            """#
    }

    private func operation(ofRequests index: Int) -> String {
        Self.operation(
            "takeRequests\(number(index))", channel: "requests\(number(index))",
            "Sends the notifications that are asked for", messages: ["payloadRequest", "envelopeRequest"],
            group: groupID)
    }

    private func operations(of tier: (name: String, topic: String)) -> String {
        let channel = "retry\(tier.name)"
        return Self.operation("putOff\(tier.name)", channel: channel, "Puts a notification off", messages: ["retry"])
            + ",\n"
            + Self.operation(
                "takeAgain\(tier.name)", channel: channel, "Sends those that are due", messages: ["retry"],
                group: groupID + ".retry")
    }

    /// - Parameter group: the consumer group of an operation that receives.
    private static func operation(
        _ name: String, channel: String, _ summary: String, messages: [String], group: String? = nil
    ) -> String {
        let references = messages.map { "{\"$ref\": \"#/channels/\(channel)/messages/\($0)\"}" }
        let binding = group.map { group in
            let id = #"{"type": "string", "enum": [\#(quoted(group))]}"#
            return ",\n  " + #""bindings": {"kafka": {"groupId": \#(id), "bindingVersion": "0.5.0"}}"#
        }
        return #"""
            "\#(name)": {
              "action": "\#(group == nil ? "send" : "receive")",
              "channel": {"$ref": "#/channels/\#(channel)"},
              "summary": "\#(summary)",
              "messages": [
                \#(references.joined(separator: ",\n    "))
              ]\#(binding ?? "")
            }
            """#
    }
}
