import Foundation
import PushRecords
import TestSupport
import Testing

/// Validates many values with python3-jsonschema in one process.
struct SchemaJudge {
    enum Verdict: Character {
        case allowed = "1"
        case refused = "0"
        /// Python cannot parse the value as JSON.
        case notRead = "-"
        /// The drafts 7 and 2020-12 give different verdicts.
        case disputed = "!"
    }

    private static let python = Python.place(with: ["jsonschema"])
    static let isThere = python != nil

    private var asked: [[String]] = []

    mutating func ask(_ schema: RecordSchema, _ value: some Collection<UInt8>) {
        asked.append([schema.rawValue, Data(value).base64EncodedString()])
    }

    /// Adds headers as an object of texts. The last value of a repeated name counts, and headers without a value are
    /// omitted.
    mutating func ask(_ schema: RecordSchema, headers: [OwnedRecord.Header]) throws {
        var object: [String: String] = [:]
        for header in headers {
            object[String(decoding: header.name, as: UTF8.self)] = header.value.map {
                String(decoding: $0, as: UTF8.self)
            }
        }
        ask(schema, try JSONEncoder().encode(object))
    }

    /// Returns one verdict for each value, in order.
    func verdicts() throws -> [Verdict] {
        var schemas: [String: Any] = [:]
        for schema in RecordSchema.allCases {
            schemas[schema.rawValue] = try JSONSerialization.jsonObject(with: Data(schema.text.utf8))
        }
        let question = try JSONSerialization.data(withJSONObject: ["schemas": schemas, "asked": asked])
        let said = try Self.run(["--judge"], input: String(decoding: question, as: UTF8.self) + "\n")
        let line = try #require(said.text.split(separator: "\n").last)
        try #require(said.ending == .exited(0) && line.count == asked.count, "\(said.text.suffix(2_000))")
        return try line.map { try #require(Verdict(rawValue: $0)) }
    }

    static func run(_ arguments: [String], input: String = "") throws -> ChildProcess.Finished {
        let script = Repository.path("Tests/EndToEndTests/Books/schemas.py")
        return try ChildProcess.run(try #require(python), [script] + arguments, input: input, within: 240)
    }
}

extension RecordSchema {
    func object() throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(text.description.utf8)) as? [String: Any])
    }
}

extension Trait where Self == ConditionTrait {
    /// Skips the test where there is no Python with jsonschema; where everything must be there (`CI=true`) it fails
    /// instead.
    static var needsSchemaJudge: Self {
        .enabled(
            if: SchemaJudge.isThere || ProcessInfo.processInfo.environment["CI"] == "true",
            "missing: a Python with jsonschema (Docker/setup --tests)")
    }
}
