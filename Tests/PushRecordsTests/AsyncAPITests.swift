import Foundation
import TestSupport
import Testing

@testable import PushRecords

/// The AsyncAPI document of all topics: its references resolve, and it contains the schemas of the records.
@Suite struct AsyncAPITests {
    private static let document = AsyncAPIDocument.text(version: "1.2.3")

    private static func object() throws -> [String: Any] {
        try #require(JSONSerialization.jsonObject(with: Data(document.utf8)) as? [String: Any])
    }

    /// Returns the value that a reference names, or `nil` if there is none.
    private static func followed(_ reference: String, in document: Any) -> Any? {
        guard reference.hasPrefix("#/") else { return nil }
        return reference.dropFirst(2).split(separator: "/").reduce(document as Any?) { place, name in
            (place as? [String: Any])?[String(name)]
        }
    }

    private static func references(in value: Any) -> [String] {
        if let list = value as? [Any] { return list.flatMap { references(in: $0) } }
        guard let object = value as? [String: Any] else { return [] }
        if let reference = object["$ref"] as? String { return [reference] }
        return object.values.flatMap { references(in: $0) }
    }

    @Test func `Every reference in the AsyncAPI document resolves`() throws {
        let object = try Self.object()
        let references = Self.references(in: object)
        #expect(references.count > 20)
        for reference in references { #expect(Self.followed(reference, in: object) != nil, "\(reference)") }
        // The specification requires that an operation's messages belong to its channel.
        for operation in try #require(object["operations"] as? [String: [String: Any]]).values {
            let channel = try #require((operation["channel"] as? [String: String])?["$ref"])
            for message in try #require(operation["messages"] as? [[String: String]]) {
                #expect(message["$ref"]?.hasPrefix(channel + "/messages/") == true)
            }
        }
    }

    @Test func `The AsyncAPI document names the topics and groups of the default configuration`() throws {
        let object = try Self.object()
        #expect((object["info"] as? [String: Any])?["version"] as? String == "1.2.3")
        let channels = try #require(object["channels"] as? [String: [String: Any]])
        #expect(
            Set(channels.values.compactMap { $0["address"] as? String }) == [
                "apns.requests", "apns.results", "apns.unregistered", "apns.dead-letters", "apns.retry.30s",
                "apns.retry.15m", "apns.retry.2h",
            ])
        let operations = try #require(object["operations"] as? [String: [String: Any]])
        for (name, operation) in operations {
            let isRead = name.hasPrefix("take")
            #expect(operation["action"] as? String == (isRead ? "receive" : "send"))
            let kafka = (operation["bindings"] as? [String: [String: Any]])?["kafka"]
            let groups = (kafka?["groupId"] as? [String: Any])?["enum"] as? [String]
            #expect(
                groups == (isRead ? [name == "takeRequests" ? "apns-worker" : "apns-worker.retry"] : nil), "\(name)")
        }
    }

    /// The schemas of each message's headers and value.
    private static let messages: [String: (headers: RecordSchema?, value: RecordSchema?)] = [
        "payloadRequest": (.requestHeaders, .payload), "envelopeRequest": (.envelopeHeaders, .envelope),
        "result": (.resultHeaders, .result), "deadToken": (nil, .unregistered),
        "deadLetter": (.deadLetterHeaders, nil), "retry": (.retryHeaders, .payload),
    ]

    @Test func `The headers and the value of each message have the right schemas`() throws {
        let object = try Self.object()
        let messages = try #require((object["components"] as? [String: Any])?["messages"] as? [String: [String: Any]])
        #expect(Set(messages.keys) == Set(Self.messages.keys))
        var used: Set<RecordSchema> = []
        for (name, schemas) in Self.messages {
            let found = try #require(messages[name])
            for (part, schema) in [("headers", schemas.headers), ("payload", schemas.value)] {
                guard let schema else { continue }
                used.insert(schema)
                var expected = try schema.object()
                expected["$schema"] = nil
                #expect((found[part] as? NSDictionary) == expected as NSDictionary, "\(name) \(part)")
            }
            #expect((found["bindings"] as? [String: [String: Any]])?["kafka"]?["key"] != nil)
        }
        #expect(used == Set(RecordSchema.allCases))
    }

    private static let official = ProcessInfo.processInfo.environment["ASYNCAPI_SCHEMA"]

    /// The official schema of AsyncAPI, from github.com/asyncapi/spec-json-schemas:
    /// `schemas/3.0.0-without-$id.json`.
    @Test(
        .enabled(
            if: SchemaJudge.isThere && official != nil,
            "missing: ASYNCAPI_SCHEMA=FILE, AsyncAPI's schemas/3.0.0-without-$id.json, and a Python with jsonschema"),
        .waiting)
    func `The AsyncAPI document conforms to the official schema`() throws {
        let folder = try TemporaryFolder()
        func check(_ text: String) throws -> ChildProcess.Finished {
            let file = try folder.write(text, "asyncapi.json")
            return try SchemaJudge.run(["--against", try #require(Self.official), file])
        }
        let fine = try check(Self.document)
        #expect(fine.ending == .exited(0), "\(fine.text)")
        // The schema rejects each of these faults.
        for (right, wrong) in [
            (#""action": "send""#, #""action": "publish""#),
            (#""bindingVersion": "0.5.0""#, #""bindingVersion": "9.9.9""#),
            (#""address": "#, #""adress": "#), (#""type": "object""#, #""type": "objekt""#),
        ] {
            #expect(try check(Self.document.replacing(right, with: wrong)).ending == .exited(1), "\(wrong)")
        }
    }
}
