import Foundation
import PushRecords
import TestSupport
import Testing

extension EndToEnd {
    /// The reasons of APNs, as an answer and in a GOAWAY: the notification's outcome and records, and the state of its
    /// app. Those that ask for another connection, or for another provider token, are left to the modules' tests.
    @Suite struct ReasonTests {
        /// One run for all cases: each has an app, and one that is about a credential has a key of its own.
        @Test(.needs(.worker, .broker, .kcat, .openssl))
        func `Everything that APNs may say ends as its table says`() throws {
            let scene = try Scene("reasons")
            let cases = try Case.all(codes: codes())
            var keys: [String] = []
            var apps: [String] = []
            for (place, each) in cases.enumerated() {
                var (id, file) = ("SIMULATOR1", scene.configuration.keyFile)
                if each.circuit != nil {
                    id = "KEY" + hex(place, digits: 7).uppercased()
                    file = "\(id).p8"
                    try scene.makeSigningKey(file)
                    keys += ["--key", "\(id)=\(scene.file(file))"]
                }
                apps.append(
                    "  - {name: \(each.app), bundle_ids: [com.example.\(each.app)], host: localhost, port: PORT, "
                        + "token: {key_file: \(file), key_id: \(id), team_id: TEAM123456}, tls: {ca_file: ca.pem}, "
                        + "connections: {min: 1, max: 1}}")
            }
            let simulator = try scene.startSimulator(arguments: keys)
            scene.configuration.apps = apps.joined(separator: "\n").replacing("PORT", with: "\(simulator.port)")
            scene.configuration.more = "delivery: {resend_max: 1}"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)

            try scene.kcat(cases.map { $0.record(of: $0.token) }, options: [])
            try scene.awaitResults(cases.count, of: worker)
            let open = cases.filter(\.staysOpen)
            try expectRefused(open, cases, pages)
            // A good notification closes each circuit that is still open.
            try scene.kcat(open.map { $0.record(of: $0.goodToken) }, options: [])
            try scene.awaitResults(cases.count + open.count, of: worker)
            try expectRefused([], cases, pages)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            let metrics = try pages.await("/metrics") {
                Pages.sum("apns_worker_notifications_total", in: $0.1) == cases.count + open.count
            }
            try scene.stop(worker)

            var results = Dictionary(grouping: try scene.resultObjects()) { $0["device_token"] as? String ?? "" }
            // The reason of each retry record. Held notifications have one too, only where a circuit opens.
            let lines = try scene.records(of: scene.configuration.retry, "%k %h").compactMap {
                $0.firstMatch(of: /^(\S+) .*push-retry-reason=([^,]*)/)
            }
            let retries = Dictionary(grouping: lines) { String($0.1) }.mapValues { $0.map { String($0.2) } }
            var deadTokens = Set(try scene.records(of: scene.configuration.unregistered, "%k").map(String.init))
            for each in cases {
                let what = Comment(rawValue: each.app)
                let mine = results.removeValue(forKey: each.token) ?? []
                #expect(mine.count == 1, what)
                let result = try #require(mine.first, what)
                #expect(result["app"] as? String == each.app, what)
                #expect(result["outcome"] as? String == each.outcome, what)
                #expect(result["status"] as? Int == each.status, what)
                #expect(result["reason"] as? String == each.reason, what)
                #expect(result["attempts"] as? Int == each.attempts, what)
                #expect(result["in_doubt"] as? Int == (each.way == .goAwayUnanswered ? 1 : 0), what)
                let since = each.isDated ? 1_600_000_000_000 + (Int(each.token.suffix(9), radix: 16) ?? 0) : nil
                #expect(result["unregistered_at_ms"] as? Int == since, what)
                let reasons = retries[each.token] ?? []
                #expect(reasons.filter { $0 != "held" } == each.retries, what)
                #expect(each.circuit != nil || !reasons.contains("held"), what)
                #expect((deadTokens.remove(each.token) != nil) == each.isDated, what)
                // Every answer other than 200 is counted under its word.
                if each.way == .answer, let reason = each.reason {
                    let name = reason.hasPrefix("HTTP ") ? "none" : reason == Case.unknown ? "other" : reason
                    let line = "apns_worker_reasons_total{app=\"\(each.app)\",reason=\"\(name)\"} \(each.attempts)\n"
                    #expect(metrics.contains(line), what)
                }
            }
            for each in open {
                let result = try #require(results.removeValue(forKey: each.goodToken)?.first, "\(each.app)")
                #expect(result["outcome"] as? String == "accepted" && result["attempts"] as? Int == 1, "\(each.app)")
            }
            #expect(results.isEmpty && deadTokens.isEmpty)
            let opened = worker.text.matches(
                of: /a circuit opened: .* of ([\w.-]+)" reason=(?:"([^"]*)"|(\S+))/
            ).map { "\($0.1) \($0.2 ?? $0.3 ?? "")" }
            #expect(opened.sorted() == cases.compactMap { each in each.circuit.map { "\(each.app) \($0)" } }.sorted())
        }

        /// The four digits of a device token that ask the simulator for each of Apple's words, from its help.
        private func codes() throws -> [String: String] {
            let lines = try Scene.worker("simulate --help").text.matches(
                of: /(?m)^ *fa17([0-9a-f]{4}) +(\d{3}) ([\w ]+?) *$/)
            return Dictionary(lines.map { (String($0.3), String($0.1)) }, uniquingKeysWith: { $1 })
        }

        /// Waits until the pages say that the credentials of exactly these apps are refused, and why.
        private func expectRefused(_ refused: [Case], _ cases: [Case], _ pages: Pages) throws {
            let names = Set(refused.map(\.app))
            try pages.await("/metrics") { answer in
                cases.allSatisfy {
                    let value = names.contains($0.app) ? 1 : 0
                    return answer.1.contains("apns_worker_credential_refused{app=\"\($0.app)\"} \(value)\n")
                }
            }
            try pages.await("/status") { answer in
                let problems = Pages.problems(in: answer.1).filter {
                    $0.text.hasPrefix("Apple refuses the credential")
                }
                return problems.count == refused.count
                    && refused.allSatisfy { each in
                        problems.contains {
                            ($0.subject == "app \(each.app)" || $0.subject.hasPrefix("app \(each.app), topic "))
                                && $0.text.contains("(\(each.circuit ?? ""))")
                                && $0.advice.hasSuffix("files are read within 10 s")
                        }
                    }
            }
        }
    }
}

/// One thing that APNs says to a notification of an app of its own, and the expected consequences.
private struct Case {
    enum Way {
        /// The answer to the request, each time.
        case answer
        /// The request is answered with 200; then the connection ends with a GOAWAY that has the reason.
        case goAway
        /// The connection ends with such a GOAWAY before the answer, once, so that the request is in doubt.
        case goAwayUnanswered
    }

    static let unknown = "ReasonOfTomorrow"

    let app: String
    let way: Way
    let token: String
    var outcome = "accepted"
    var status = 200
    var reason: String?
    var attempts = 1
    /// A 410 with its time, which makes a dead token.
    var isDated = false
    /// The reasons of its retry records.
    var retries: [String] = []
    /// The word for which the app's circuit opens.
    var circuit: String?

    /// The circuit is open until something good is sent.
    var staysOpen: Bool { circuit != nil && way != .goAwayUnanswered }
    var goodToken: String { "00" + token.dropFirst(2) }

    func record(of token: String) -> String {
        #"{"device_token":"\#(token)","app":"\#(app)","payload":{"aps":{"alert":"Hi"}}}"#
    }

    private init(_ app: String, _ way: Way, prefix: String, number: Int, circuit: String?) {
        (self.app, self.way, self.circuit) = (app, way, circuit)
        token = prefix + hex(0xC0DE_0000 + number, digits: 64 - prefix.count)
    }

    /// - Parameter codes: The digits by which the simulator is asked for each of Apple's words.
    static func all(codes: [String: String]) throws -> [Case] {
        let elsewhere: [ReasonCode] = [
            .none, .other, .idleTimeout, .expiredProviderToken, .tooManyProviderTokenUpdates, .unrelatedKeyIdInToken,
        ]
        #expect(Set(rows.flatMap(\.reasons) + elsewhere) == Set(ReasonCode.allCases))
        var cases: [Case] = []
        func add(_ app: String, _ way: Way, prefix: String, circuit: String?, _ change: (inout Case) -> Void = { _ in })
        {
            var each = Case(app, way, prefix: prefix, number: cases.count, circuit: circuit)
            change(&each)
            cases.append(each)
        }
        func addAnswer(_ app: String, code: String, status: Int, reason: String, word: String, ending: Ending) {
            add(app, .answer, prefix: "fa17\(code)0", circuit: ending.isOfCredential ? word : nil) {
                $0.outcome = ending.outcome
                $0.attempts = ending.outcome == "abandoned" ? 2 : 1
                ($0.status, $0.reason) = (status, reason)
                $0.retries = ending.outcome == "abandoned" ? [reason] : []
                $0.isDated = ending == .unregistered && !reason.hasPrefix("HTTP ")
            }
        }
        for (status, ending, reasons) in rows {
            for reason in reasons {
                guard let word = reason.text?.description, let code = codes[word] else {
                    throw Unexpected("the simulator has no device token for \(reason)")
                }
                addAnswer("answer-\(reason)", code: code, status: status, reason: word, word: word, ending: ending)
                // The first digit asks for a GOAWAY instead.
                let digits = ["4": ("8", "6"), "5": ("9", "7")][code.prefix(1)] ?? ("2", "3")
                let circuit = ending == .credential ? word : nil
                add("goaway-\(reason)", .goAway, prefix: "fa17\(digits.0)\(code.dropFirst())0", circuit: circuit)
                add(
                    "unanswered-\(reason)", .goAwayUnanswered, prefix: "fa17\(digits.1)\(code.dropFirst())1",
                    circuit: circuit
                ) {
                    $0.attempts = 2
                }
            }
        }
        for (status, unknownEnding, missingEnding) in statuses {
            for (digit, reason, ending) in [
                ("e", unknown, unknownEnding), ("b", "HTTP \(status)", missingEnding),
            ] {
                addAnswer(
                    "status-\(digit)\(status)", code: "\(digit)\(status)", status: status, reason: reason,
                    word: "no known reason", ending: ending)
            }
        }
        return cases
    }
}

/// What the worker does with an answer.
private enum Ending: String {
    case rejected
    case unregistered
    /// Sent once more from the tier, which was the last attempt.
    case retried
    /// As `retried`, and the circuit of the app's credential opens.
    case credential
    /// As `credential`, for the app's topic alone. A GOAWAY with the word says nothing about the next connection.
    case topic

    var outcome: String { self == .rejected || self == .unregistered ? rawValue : "abandoned" }
    var isOfCredential: Bool { self == .credential || self == .topic }
}

/// Apple's table of status codes, "Handling notification responses from APNs": the consequences of an unknown reason,
/// and of none, which means a proxy or another server where the notification itself would be at fault.
private let statuses: [(Int, unknown: Ending, missing: Ending)] = [
    (400, .rejected, .retried),  // "Bad request."
    // "There was an error with the certificate or with the provider's authentication token."
    (403, .credential, .credential),
    (404, .rejected, .retried),  // "The request contained an invalid :path value."
    (405, .rejected, .retried),  // "The request used an invalid :method value."
    (410, .unregistered, .unregistered),  // "The device token is no longer active for the topic."
    (413, .rejected, .retried),  // "The notification payload was too large."
    (429, .retried, .retried),  // "The server received too many requests for the same device token."
    (500, .retried, .retried),  // "Internal server error."
    (503, .retried, .retried),  // "The server is shutting down and unavailable."
]

/// Apple's page "Handling notification responses from APNs", which also says: "After 15 minutes, you can retry JSON
/// payloads that receive response status codes that begin with 5XX. […] Don't retry notification responses with the
/// error code BadDeviceToken, DeviceTokenNotForTopic, Forbidden, ExpiredToken, Unregistered, or PayloadTooLarge. You
/// can retry with a delay, if you get the error code TooManyRequests."
private let rows: [(status: Int, ending: Ending, reasons: [ReasonCode])] = [
    (
        400, .rejected,
        [
            .badCollapseId, .badDeviceToken, .badExpirationDate, .badMessageId, .badPriority, .badTopic,
            .deviceTokenNotForTopic, .duplicateHeaders, .invalidPushType, .missingDeviceToken, .missingTopic,
            .payloadEmpty,
        ]
    ),
    (400, .topic, [.topicDisallowed]),
    (
        403, .credential,
        [
            .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken,
            .badEnvironmentKeyIdInToken,
        ]
    ),
    (403, .rejected, [.forbidden]), (404, .rejected, [.badPath]), (405, .rejected, [.methodNotAllowed]),
    (410, .unregistered, [.expiredToken, .unregistered]), (413, .rejected, [.payloadTooLarge]),
    (429, .retried, [.tooManyRequests]),
    (500, .retried, [.internalServerError]), (503, .retried, [.serviceUnavailable, .shutdown]),
    // Seen live in place of BadEnvironmentKeyIdInToken.
    (403, .credential, [.badEnvironmentKeyInToken]),
    // Apple's page "Handling error responses from Apple Push Notification service", of broadcasts.
    (
        400, .rejected,
        [
            .featureNotEnabled, .missingChannelId, .badChannelId, .channelNotRegistered, .badRequestParams,
            .badRequestPayload, .missingPushType, .cannotCreateChannelConfig,
        ]
    ),
    (403, .credential, [.topicMismatch]), (503, .retried, [.serviceUnavailableSpaced]),
]
