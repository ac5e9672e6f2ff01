import Configuration
import Foundation
import PushRecords
import Testing

/// What the article for users of node-apn says: each of node-apn's names has its row, and each name of ours in it is
/// there.
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
    /// By the documents and sources of 2.1 and of @parse/node-apn.
    private static let later = [
        "Provider", "MultiProvider", "clientCount", "token.key", "token.keyId", "token.teamId", "cert", "key", "pfx",
        "passphrase", "ca", "rejectUnauthorized", "production", "NODE_ENV", "address", "port", "proxy",
        "requestTimeout", "connectionRetryLimit", "topic", "pushType", "collapseId", "id", "expiry", "priority",
        "payload", "aps", "rawPayload", "send", "sent", "failed", "status", "response.reason", "response.timestamp",
        "error", "shutdown",
    ]

    // MARK: The article

    private struct Row {
        var section: String
        var cells: [String]
        /// What the first cell names: without `new` and arguments.
        var names: [String] {
            let isEvent = cells[0].hasPrefix("event ")
            let names = OurNames.spans(of: cells[0]).map { span in
                (isEvent ? "event " : "")
                    + String((span.hasPrefix("new ") ? String(span.dropFirst(4)) : span).prefix { $0 != "(" })
            }
            return names.isEmpty ? [cells[0]] : names
        }
    }

    private let article: String
    private let rows: [Row]
    /// All but the blocks of code and the first cells.
    private let ours: [String]

    init() throws {
        article = try OurNames.text("Sources/Worker/Worker.docc/ComingFromNodeAPN.md")
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
                !OurNames.spans(of: here).isEmpty || here.hasPrefix("Nothing"),
                "\(section): \(row.cells[0]) has no counterpart, and it is not said that there is none")
        }
    }

    @Test func `Each name of node APN has its row`() {
        expect("Options of Connection", Self.connectionOptions.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Methods of Connection", Self.connectionMethods.map { (name: $0, defaults: []) })
        expect("Events of Connection", Self.connectionEvents.map { (name: $0, defaults: []) })
        expect("Notification", Self.notification.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Device", Self.device.map { (name: $0, defaults: []) })
        expect("Feedback", Self.feedback.map { (name: $0.0, defaults: [$0.1, $0.2]) })
        expect("Environment", Self.environment.map { (name: $0, defaults: []) })
        expect("node-apn 2.x and later", Self.later.map { (name: $0, defaults: []) })
        let statuses = rows(of: "Status codes").map { "\($0.names[0]) \($0.cells[1])" }
        #expect(statuses == Self.statuses.map { "\($0.0) \($0.1)" })
    }

    @Test func `Its configuration works`() throws {
        let blocks = article.components(separatedBy: "```yaml\n").dropFirst().map {
            $0.components(separatedBy: "```")[0]
        }
        #expect(blocks.count == 1)
        for block in blocks { #expect(errors(block) == []) }
    }

    /// Each setting, metric, symbol, option, log line and member of a record that it names.
    @Test func `Each name of ours is there`() throws {
        let names = try OurNames()
        let theirs = Set(rows.flatMap(\.names)).union(Self.foreign)
        for span in Set(ours.flatMap(OurNames.spans)).sorted() where !theirs.contains(span) && !names.has(span) {
            Issue.record("there is no \(span)")
        }
    }

    /// A check that takes everything would show nothing.
    @Test(arguments: [
        "binary.windw", "binary.window.size", "connections.min: -1", "connectionz", "tls.verify: perhaps", "hosst",
        "AlertPayload.lunchImage", "AlertPayloads", "PushNotification(jason:)", "PushExpiration.at(seconds:)",
        "held_totals",
        "--log-levels debug", "apns-worker serve", "unregistered_at", "apns-ids", "connecting", "InvalidTopic",
        "apns.result",
    ])
    func `What is not there is found`(name: String) throws { #expect(try !OurNames().has(name)) }

    @Test func `The defaults that it names are ours`() throws {
        let app = AppSettings(
            name: "a", bundleIDs: ["a"], credential: .token(TokenCredential(key: .text(""), keyID: "", teamID: "")))
        #expect(app.port == 443 && app.environment == .production && app.verifiesHost)
        #expect(app.connections.min == 1 && app.connections.max == 8)
        let binary = BinarySettings()
        #expect(BinarySettings.port == 2_195 && binary.format == .framed && binary.payloadLimit == 2_048)
        #expect(binary.window.adjusts && binary.resends)
        #expect(RequestRecord.deviceLimit == 10_000)
        let channel = try OurNames.text("Sources/Network/ChannelOptions.swift")
        #expect(channel.contains("dialTimeoutNs: Int64 = 10_000_000_000"))
        #expect(channel.contains("handshakeTimeoutNs: Int64 = 10_000_000_000"))
        #expect(try OurNames.code("Sources/APNs/Binary").contains("storedSeconds: Int64 = 30 * 86_400"))
    }

    /// What it names of others: JSON, Node, members of payloads and of node-apn's objects.
    private static let foreign: Set<String> = [
        "null", "errorCallback(255, null)", "ucs2", "time", "Connection",
        "Notification", "Device", "PushRecords", "apps", "apns", "@parse/node-apn", "compile()", "headers()",
    ]
}
