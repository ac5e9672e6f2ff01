import Configuration
import Foundation
import Observability
import PushRecords

/// Names of settings, symbols, metrics and so on that an article may use, each looked up where it is made.
struct OurNames {
    private let records =
        try! OurNames.code("Sources/PushRecords") + RecordSchema.allCases.map(\.text).joined()
    private let commands: String
    private let metrics: String
    private let lines: String
    private let texts: Set<String>

    init() throws {
        commands = try Self.code("Sources/apns-worker") + Self.code("Sources/Configuration/CommandLine")
        metrics = try Self.text("Sources/Worker/Admin/MetricsText.swift")
        lines = try Self.text("Sources/Worker/Core/EventLog.swift")
        var literals = try Self.text("Sources/APNs/Binary/GatewayAnswer.swift")
        for folder in ["Results", "Requests", "Unregistered", "Vocabulary"] {
            literals += try Self.code("Sources/PushRecords/\(folder)")
        }
        for schema in RecordSchema.allCases { literals += schema.text }
        literals += try Self.text("Sources/Delivery/Settlement/Settlement.swift")
        let configuration = try load(minimal).configuration
        var texts: Set<String> = [configuration.results.topic, configuration.unregistered.topic, "/status", "/metrics"]
        for match in literals.matches(of: /"([\w-]+)"/) { texts.insert(String(match.1)) }
        for code in ReasonCode.allCases { if let word = code.text { texts.insert(word.description) } }
        for outcome in Outcome.allCases { texts.insert(outcome.rawValue) }
        for level in Level.allCases { texts.insert(level.rawValue) }
        self.texts = texts
    }

    func has(_ name: String) -> Bool {
        texts.contains(name) || isSetting(name) || isSymbol(name) || isOption(name)
            || metrics.contains("\"apns_worker_\(name)\"") || lines.contains("\"\(name)\"")
    }

    /// `binary.window.limit`, of an app, or from the beginning of the file; with a value that is taken.
    private func isSetting(_ name: String) -> Bool {
        guard let match = name.wholeMatch(of: /([a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*)(?:: (\w+))?/) else {
            return false
        }
        let path = match.1.split(separator: ".").map(String.init)
        let isTop = ["kafka", "requests", "results", "unregistered", "retry", "delivery", "log", "drain"]
            .contains(path[0])
        let value = match.2.map(String.init)
        var app: [String: Any] = [
            "name": "shop", "bundle_ids": ["com.example.shop"], "transport": "binary", "host": "localhost",
            "certificate": ["file": "cert.pem"],
        ]
        var file: [String: Any] = ["kafka": ["bootstrap_servers": "localhost:9092"]]
        if isTop { Self.put(value, path[...], in: &file) } else { Self.put(value, path[...], in: &app) }
        file["apps"] = [app]
        guard let json = try? JSONSerialization.data(withJSONObject: file) else { return false }
        let found = errors(String(decoding: json, as: UTF8.self))
        let place = (isTop ? "" : "apps[0].") + match.1
        return !found.contains { $0.contains("unknown key") || (value != nil && $0.contains(" \(place): ")) }
    }

    private static func put(_ value: String?, _ path: ArraySlice<String>, in tree: inout [String: Any]) {
        guard let first = path.first else { return }
        if path.count > 1 {
            var inner = tree[first] as? [String: Any] ?? [:]
            put(value, path.dropFirst(), in: &inner)
            tree[first] = inner
        } else if let value {
            tree[first] = Int(value) ?? (value == "true" || value == "false" ? value == "true" : value) as Any
        } else if tree[first] == nil {
            tree[first] = [String: Any]()
        }
    }

    /// `Type`, `Type(label:)`, `Type.member`, `Type.member(label:)`: public in PushRecords.
    private func isSymbol(_ name: String) -> Bool {
        guard let match = name.wholeMatch(of: /([A-Z]\w+)(?:\.(\w+))?(?:\(((?:\w+:)*)\))?/),
            records.contains(try! Regex(#"public (?:struct|enum) \#(match.1)\b"#))
        else { return false }
        let member = match.2.map(String.init)
        if let member,
            !records.contains(
                try! Regex(#"(?:public (?:mutating )?(?:var|let|func|static let) |case )[^\n(]*\b\#(member)\b"#))
        {
            return false
        }
        guard let labels = match.3, !labels.isEmpty else { return true }
        let start = member.map { #"(?:func|case) \#($0)"# } ?? #"init"#
        let all = labels.split(separator: ":").filter { $0 != "_" }.map { #"[^)]*\b\#($0)\b[^)]*:"# }.joined()
        return records.contains(try! Regex(#"\#(start)\(\#(all)"#))
    }

    /// `apns-worker run`, `--keylog FILE`, and both.
    private func isOption(_ name: String) -> Bool {
        let words = name.split(separator: " ").map(String.init)
        if words.first == "apns-worker", words.count > 1 {
            return commands.contains("Command(name: \"\(words[1])\"")
                || commands.contains("name: \"\(words[1])\", summary:")
        }
        guard let first = words.first, first.hasPrefix("--") else { return false }
        return commands.contains("\"\(first.dropFirst(2))\"")
    }

    // MARK: Texts and code

    static let root = ReadmeTests.root

    static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// All of Swift in a folder.
    static func code(_ folder: String) throws -> String {
        let place = root.appending(path: folder)
        let files = FileManager.default.enumerator(at: place, includingPropertiesForKeys: nil)
        let paths = (files?.allObjects as? [URL] ?? []).filter { $0.pathExtension == "swift" }
        return try paths.map { try String(contentsOf: $0, encoding: .utf8) }.joined(separator: "\n")
    }

    static func spans(of text: String) -> [String] {
        text.matches(of: /`([^`]+)`/).map { String($0.1) }
    }
}
