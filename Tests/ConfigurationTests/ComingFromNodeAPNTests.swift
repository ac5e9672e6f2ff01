import Configuration
import Foundation
import PushRecords
import Testing

/// What the article for users of node-apn says: each of node-apn's names has its row, and each name of ours in it is there.
@Suite struct ComingFromNodeAPNTests {
    // MARK: What node-apn has, by its documents and sources of 1.2.5 and 1.6

    /// With the defaults of both; "–": that version does not have it.
    private static let connectionOptions: [(String, String, String)] = [
        ("cert", "`cert.pem`", "`cert.pem`"), ("certData", "`null`", "in `cert`"), ("key", "`key.pem`", "`key.pem`"),
        ("keyData", "`null`", "in `key`"), ("passphrase", "`null`", "`null`"), ("pfx", "`null`", "`null`"),
        ("pfxData", "`null`", "in `pfx`"), ("ca", "`null`", "`null`"), ("rejectUnauthorized", "`true`", "`true`"),
        ("gateway", "`gateway.push.apple.com`", "as `address`"), ("address", "–", "by `production`"),
        ("production", "–", "`NODE_ENV`"), ("port", "`2195`", "`2195`"), ("enhanced", "`true`", "`true`"),
        ("legacy", "–", "`false`"), ("largePayloads", "–", "by `production`"),
        ("errorCallback", "`undefined`", "`undefined`"), ("cacheLength", "`100`", "`1000`"),
        ("autoAdjustCache", "`true`", "`true`"), ("buffersNotifications", "–", "`true`"),
        ("connectionTimeout", "`0`", "`0`"), ("connectTimeout", "–", "`10000`"), ("connectionRetryLimit", "–", "`10`"),
        ("maxConnections", "–", "`1`"), ("fastMode", "–", "`false`"), ("disableNagle", "–", "`false`"),
        ("disableEPIPEFix", "–", "`false`"),
    ]
    private static let connectionMethods = [
        "Connection", "pushNotification", "sendNotification", "setCacheLength", "shutdown",
    ]
    private static let connectionEvents = [
        "error", "transmitted", "completed", "drain", "connected", "disconnected", "timeout", "socketError",
        "transmissionError", "cacheTooSmall",
    ]
    /// Methods have no default.
    private static let notification: [(String, String, String)] = [
        ("Notification", "–", "`{}`"), ("payload", "`{}`", "`{}`"), ("alert", "`undefined`", "`undefined`"),
        ("setAlertText", "", ""), ("setAlertTitle", "–", ""), ("setAlertAction", "–", ""), ("setActionLocKey", "", ""),
        ("setLocKey", "", ""), ("setLocArgs", "", ""), ("setLaunchImage", "", ""),
        ("badge", "`undefined`", "`undefined`"), ("setBadge", "`undefined`", "`undefined`"),
        ("sound", "`undefined`", "`undefined`"), ("setSound", "`undefined`", "`undefined`"),
        ("category", "–", "`undefined`"), ("setCategory", "–", "`undefined`"), ("contentAvailable", "–", "`undefined`"),
        ("setContentAvailable", "–", "`undefined`"), ("newsstandAvailable", "`undefined`", "`undefined`"),
        ("setNewsstandAvailable", "`undefined`", "`undefined`"), ("mdm", "–", "`undefined`"),
        ("setMDM", "–", "`undefined`"), ("urlArgs", "–", "`undefined`"), ("setUrlArgs", "–", "`undefined`"),
        ("expiry", "`0`", "`0`"), ("setExpiry", "`0`", "`0`"), ("priority", "–", "`10`"), ("setPriority", "–", "`10`"),
        ("retryLimit", "–", "`-1`"), ("encoding", "`utf8`", "`utf8`"), ("truncateAtWordEnd", "–", "`false`"),
        ("setTruncateAtWordEnd", "–", "`false`"), ("trim", "", ""), ("compile", "–", ""), ("length", "", ""),
        ("clone", "", ""), ("device", "`undefined`", "`undefined`"), ("identifier", "`0`", "–"),
        ("errorCallback", "`undefined`", "`undefined`"),
    ]
    private static let device = ["Device", "toString", "token"]
    private static let feedback: [(String, String, String)] =
        ["cert", "certData", "key", "keyData", "passphrase", "pfx", "pfxData", "ca"].map {
            ($0, "as of `Connection`", "as of `Connection`")
        } + [
            ("rejectUnauthorized", "`true`", "`true`"), ("address", "`feedback.push.apple.com`", "by `production`"),
            ("production", "–", "`NODE_ENV`"), ("port", "`2196`", "`2196`"), ("feedback", "`false`", "`false`"),
            ("batchFeedback", "`false`", "`true`"), ("batchSize", "–", "`0`"), ("interval", "`3600`", "`3600`"),
            ("errorCallback", "`false`", "`false`"), ("Feedback", "", ""), ("start", "", ""), ("cancel", "", ""),
            ("event feedback", "–", ""), ("event feedbackError", "–", ""), ("event error", "–", ""),
        ]
    private static let statuses: [(String, String)] = [
        ("noErrorsEncountered", "0"), ("processingError", "1"), ("missingDeviceToken", "2"), ("missingTopic", "3"),
        ("missingPayload", "4"), ("invalidTokenSize", "5"), ("invalidTopicSize", "6"), ("invalidPayloadSize", "7"),
        ("invalidToken", "8"), ("apnsShutdown", "10"), ("protocol error (no name there)", "128"), ("none", "255"),
        ("retryLimitExceeded", "512"), ("moduleInitialisationFailed", "513"), ("connectionRetryLimitExceeded", "514"),
        ("connectionTerminated", "515"),
    ]
    private static let environment = ["DEBUG=apn", "DEBUG=apnfb", "DEBUG=apn:trace", "NODE_ENV"]

    // MARK: The article

    private struct Row {
        var section: String
        var cells: [String]
        /// What the first cell names: without `new` and arguments.
        var names: [String] {
            let isEvent = cells[0].hasPrefix("event ")
            let names = ComingFromNodeAPNTests.spans(of: cells[0]).map { span in
                (isEvent ? "event " : "")
                    + String((span.hasPrefix("new ") ? String(span.dropFirst(4)) : span).prefix { $0 != "(" })
            }
            return names.isEmpty ? [cells[0]] : names
        }
    }

    private static let root = ReadmeTests.readme.deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// All of Swift in a folder.
    private static func code(_ folder: String) throws -> String {
        let place = root.appending(path: folder)
        let files = FileManager.default.enumerator(at: place, includingPropertiesForKeys: nil)
        let paths = (files?.allObjects as? [URL] ?? []).filter { $0.pathExtension == "swift" }
        return try paths.map { try String(contentsOf: $0, encoding: .utf8) }.joined(separator: "\n")
    }

    private static func spans(of text: String) -> [String] {
        text.matches(of: /`([^`]+)`/).map { String($0.1) }
    }

    private let article: String
    private let rows: [Row]
    /// All but the blocks of code and the first cells.
    private let ours: [String]

    init() throws {
        article = try Self.text("Sources/Worker/Worker.docc/ComingFromNodeAPN.md")
        var rows: [Row] = []
        var ours: [String] = []
        var section = ""
        var isCode = false
        for line in article.split(separator: "\n").map(String.init) {
            if line.hasPrefix("```") { isCode.toggle() }
            if isCode { continue }
            if line.hasPrefix("## ") { section = String(line.dropFirst(3)) }
            guard line.hasPrefix("| ") else {
                ours.append(line)
                continue
            }
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).dropFirst().dropLast()
                .map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells[0] != "node-apn" else { continue }
            rows.append(Row(section: section, cells: cells))
            ours += section == "Status codes" ? [cells[2], cells[3]] : [cells[cells.count - 1]]
        }
        self.rows = rows
        self.ours = ours
    }

    private func rows(of section: String) -> [Row] { rows.filter { $0.section == section } }

    // MARK: What is checked

    private func expect(_ section: String, _ expected: [(name: String, defaults: [String])]) {
        let rows = rows(of: section)
        for (name, defaults) in expected {
            guard let row = rows.first(where: { $0.names.contains(name) }) else {
                Issue.record("\(section): \(name) has no row")
                continue
            }
            #expect(Array(row.cells[1...].prefix(defaults.count)) == defaults, "\(section): \(name)")
        }
        let known = Set(expected.map(\.name))
        for name in rows.flatMap(\.names) where !known.contains(name) {
            Issue.record("\(section): node-apn has no \(name)")
        }
        for row in rows {
            let here = row.cells[row.cells.count - 1]
            #expect(
                !Self.spans(of: here).isEmpty || here.hasPrefix("Nothing"),
                "\(section): \(row.cells[0]) has no counterpart, and it is not said that there is none")
        }
    }

    @Test func eachNameOfNodeAPNHasItsRow() {
        expect("Options of Connection", Self.connectionOptions.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Methods of Connection", Self.connectionMethods.map { (name: $0, defaults: []) })
        expect("Events of Connection", Self.connectionEvents.map { (name: $0, defaults: []) })
        expect("Notification", Self.notification.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Device", Self.device.map { (name: $0, defaults: []) })
        expect("Feedback", Self.feedback.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Environment", Self.environment.map { (name: $0, defaults: []) })
        let statuses = rows(of: "Status codes").map { "\($0.names[0]) \($0.cells[1])" }
        #expect(statuses == Self.statuses.map { "\($0.0) \($0.1)" })
    }

    @Test func itsConfigurationWorks() throws {
        let blocks = article.components(separatedBy: "```yaml\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count == 1)
        for block in blocks { #expect(errors(block) == []) }
    }

    /// Each setting, metric, symbol, option, log line and member of a record that it names.
    @Test func eachNameOfOursIsThere() throws {
        let names = try OurNames()
        let theirs = Set(rows.flatMap(\.names)).union(Self.foreign)
        for span in Set(ours.flatMap(Self.spans)).sorted() where !theirs.contains(span) && !names.has(span) {
            Issue.record("there is no \(span)")
        }
    }

    /// A check that takes everything would show nothing.
    @Test(arguments: [
        "binary.windw", "binary.window.size", "connections.min: -1", "connectionz", "tls.verify: perhaps", "hosst",
        "AlertPayload.launchImage", "AlertPayloads", "PushNotification(jason:)", "Expiration.at(seconds:)",
        "held_totals",
        "--log-levels debug", "apns-worker serve", "unregistered_at", "apns-ids", "connecting", "InvalidTopic",
        "apns.result",
    ])
    func whatIsNotThereIsFound(name: String) throws { #expect(try !OurNames().has(name)) }

    @Test func theDefaultsThatItNamesAreOurs() throws {
        let app = AppSettings(
            name: "a", bundleIDs: ["a"], credential: .token(TokenCredential(key: .text(""), keyID: "", teamID: "")))
        #expect(app.port == 443 && app.environment == .production && app.verifiesHost)
        #expect(app.connections.min == 1 && app.connections.max == 8)
        let binary = BinarySettings()
        #expect(BinarySettings.port == 2_195 && binary.format == .framed && binary.payloadLimit == 2_048)
        #expect(binary.window.adjusts && binary.resends)
        #expect(PushNotification.deviceLimit == 10_000)
        let channel = try Self.text("Sources/Network/ChannelOptions.swift")
        #expect(channel.contains("dialTimeoutNs: Int64 = 10_000_000_000"))
        #expect(channel.contains("handshakeTimeoutNs: Int64 = 10_000_000_000"))
        #expect(try Self.code("Sources/APNs/Binary").contains("storedSeconds: Int64 = 30 * 86_400"))
    }

    /// What it names of others: JSON, Node, members of payloads and of node-apn's objects.
    private static let foreign: Set<String> = [
        "null", "errorCallback(255, null)", "ucs2", "alert", "aps", "url-args", #"{"mdm": "…"}"#, "time", "Connection",
        "Notification", "Device", "PushRecords", "apps", "apns",
    ]

    // MARK: What there is

    /// Names of settings, symbols, metrics and so on, each looked up where it is made.
    private struct OurNames {
        private let records = try! code("Sources/PushRecords")
        private let commands: String
        private let metrics: String
        private let lines: String
        private let texts: Set<String>

        init() throws {
            commands = try code("Sources/apns-worker") + code("Sources/Configuration/CommandLine")
            metrics = try text("Sources/Worker/Admin/MetricsText.swift")
            lines = try text("Sources/Worker/Core/EventLog.swift")
            var literals = try text("Sources/APNs/Binary/GatewayAnswer.swift")
            for folder in ["Schemas", "Results", "Requests", "Unregistered", "Vocabulary"] {
                literals += try code("Sources/PushRecords/\(folder)")
            }
            literals += try text("Sources/Delivery/Settlement/Settlement.swift")
            let configuration = try load(minimal).configuration
            var texts: Set<String> = [configuration.results.topic, configuration.unregistered.topic, "/status"]
            for match in literals.matches(of: /"([\w-]+)"/) { texts.insert(String(match.1)) }
            for code in ReasonCode.allCases { if let word = code.text { texts.insert(word.description) } }
            for outcome in Outcome.allCases { texts.insert(outcome.rawValue) }
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
                !records.contains(try! Regex(#"(?:public (?:var|let|func|static let) |case )[^\n(]*\b\#(member)\b"#))
            {
                return false
            }
            guard let labels = match.3, !labels.isEmpty else { return true }
            let start = member.map { #"(?:func|case) \#($0)"# } ?? #"init"#
            let all = labels.split(separator: ":").filter { $0 != "_" }.map { #"[^)]*\b\#($0)\b[^)]*:"# }.joined()
            return records.contains(try! Regex(#"\#(start)\(\#(all)"#))
        }

        /// `apns-worker run`, `--trace FILE`, and both.
        private func isOption(_ name: String) -> Bool {
            let words = name.split(separator: " ").map(String.init)
            if words.first == "apns-worker", words.count > 1 {
                return commands.contains("Command(name: \"\(words[1])\"")
                    || commands.contains("name: \"\(words[1])\", summary:")
            }
            guard let first = words.first, first.hasPrefix("--") else { return false }
            return commands.contains("\"\(first.dropFirst(2))\"")
        }
    }
}
