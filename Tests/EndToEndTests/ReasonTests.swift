import Foundation
import PushRecords
import TestSupport
import Testing

extension EndToEnd.Troubles {
    /// Everything that APNs may say, as an answer and as the last words of a connection: what becomes of the
    /// notification, what is written of it, and what of its app.
    @Suite(.serialized) struct ReasonTests {
        /// One run for all of it: each case has an app, and one that is about a credential a key of its own.
        @Test(.needs(.worker, .broker, .kcat, .openssl))
        func `Everything that APNs may say ends as its table says`() throws {
            let scene = try Scene("reasons", partitions: 4)
            let cases = try Case.all(codes: codes(scene))
            var keys: [String] = []
            for (place, each) in cases.enumerated() where each.circuit != nil {
                let id = Self.keyID(place)
                try scene.makeSigningKey("\(id).p8")
                keys += ["--key", "\(id)=\(scene.file("\(id).p8"))"]
            }
            _ = try scene.startSimulator(arguments: keys)
            scene.configuration.apps = cases.enumerated().map { place, each in
                Self.app(each, key: each.circuit == nil ? "SIMULATOR1" : Self.keyID(place), scene)
            }.joined(separator: "\n")
            scene.configuration.more = "delivery: {resend_max: 1}"
            let (worker, pages) = try scene.startWorkerWithPages(untilFine: true)

            try scene.kcat(cases.map { $0.record(of: $0.token) }, options: [])
            try scene.await(scene.configuration.results, holds: cases.count, of: worker)
            try expectRefused(cases.filter { $0.circuit?.stays == true }, cases, pages)

            // A good one closes each circuit that is still open, and shows that a host is of use.
            let open = cases.filter { $0.circuit?.stays == true || $0.isOutOfReach }
            try scene.kcat(open.map { $0.record(of: $0.goodToken) }, options: [])
            try scene.await(scene.configuration.results, holds: cases.count + open.count, of: worker)
            try expectRefused([], cases, pages)
            try pages.await("/status") { $0.1.contains(#""health":"fine""#) }
            let metrics = try pages.await("/metrics") {
                Pages.sum("apns_worker_notifications_total", in: $0.1) == cases.count + open.count
            }
            try scene.stop(worker)

            var found = try Found(scene)
            for each in cases { compare(each, &found, metrics) }
            for each in open {
                let result = try #require(found.results.removeValue(forKey: each.goodToken)?.first, "\(each.app)")
                #expect(result["outcome"] as? String == "accepted" && result["attempts"] as? Int == 1, "\(each.app)")
                let retries = found.retries.removeValue(forKey: each.goodToken) ?? []
                #expect(retries.allSatisfy { $0 == "held" }, "\(each.app)")
            }
            #expect(found.results.isEmpty && found.retries.isEmpty && found.deadTokens.isEmpty, "\(found)")
            let opened = worker.text.matches(
                of: /a circuit opened: .* of ([\w.-]+)" reason=(?:"([^"]*)"|(\S+))/
            ).map { "\($0.1) \($0.2 ?? $0.3 ?? "")" }
            func names(_ cases: [Case]) -> [String] {
                cases.compactMap { each in each.circuit.map { "\(each.app) \($0.word)" } }
            }
            // Of the hosts that are out of reach one opens, too, if that lasts.
            let byHost = "no connection of use"
            let may = Set(names(cases.filter { $0.mayRenew && $0.way != .answer }))
            #expect(
                opened.filter { !may.contains($0) && !$0.hasSuffix(byHost) }.sorted()
                    == names(cases).filter { !may.contains($0) }.sorted())
        }

        // MARK: The parts

        /// Of each reason of the simulator's table, by Apple's word, the four digits that ask for it.
        private func codes(_ scene: Scene) throws -> [String: String] {
            let help = try Scene.run(Tool.worker.path(), ["simulate", "--help"]).text
            var codes: [String: String] = [:]
            for line in help.matches(of: /(?m)^ *fa17([0-9a-f]{4}) +(\d{3}) ([\w ]+?) *$/) {
                codes[String(line.3)] = String(line.1)
            }
            return codes
        }

        private static func keyID(_ place: Int) -> String { "KEY" + hex(place, digits: 7).uppercased() }

        private static func app(_ each: Case, key: String, _ scene: Scene) -> String {
            let file = key == "SIMULATOR1" ? scene.configuration.keyFile : "\(key).p8"
            return """
                  - name: \(each.app)
                    bundle_ids: [\(each.bundleID)]
                    host: localhost
                    port: \(scene.configuration.port)
                    token: {key_file: \(file), key_id: \(key), team_id: TEAM123456}
                    tls: {ca_file: ca.pem}
                    connections: {min: 1, max: 1}
                """
        }

        /// Waits until the pages say of these apps, and of no other, that their credential is refused, and why.
        private func expectRefused(_ refused: [Case], _ cases: [Case], _ pages: Pages) throws {
            let names = Set(refused.map(\.app))
            try pages.await("/metrics") { answer in
                cases.allSatisfy { each in
                    if each.mayRenew, each.way != .answer { return true }
                    let value = names.contains(each.app) ? 1 : 0
                    return answer.1.contains("apns_worker_credential_refused{app=\"\(each.app)\"} \(value)\n")
                }
            }
            try pages.await("/status") { answer in
                let status = try? JSONSerialization.jsonObject(with: Data(answer.1.utf8)) as? [String: Any]
                let problems = (status?["problems"] as? [[String: Any]] ?? []).filter {
                    ($0["text"] as? String)?.hasPrefix("Apple refuses the credential") == true
                }
                let certain = refused.filter { !$0.mayRenew || $0.way == .answer }
                return (certain.count...refused.count).contains(problems.count)
                    && certain.allSatisfy { each in
                        problems.contains {
                            $0["subject"] as? String == "app \(each.app)"
                                && ($0["text"] as? String)?.contains("(\(each.circuit?.word ?? ""))") == true
                                && ($0["advice"] as? String)?.hasSuffix("files are read by themselves") == true
                        }
                    }
            }
        }

        private func compare(_ each: Case, _ found: inout Found, _ metrics: String) {
            let what = Comment(rawValue: each.app)
            let results = found.results.removeValue(forKey: each.token) ?? []
            #expect(results.count == 1, what)
            guard let result = results.first else { return }
            #expect(result["app"] as? String == each.app, what)
            #expect(result["outcome"] as? String == each.outcome, what)
            #expect(result["status"] as? Int == each.status, what)
            #expect(result["reason"] as? String == each.reason, what)
            let attempts = result["attempts"] as? Int ?? 0
            // A host that seems out of reach for long has its notifications held, and sent once more.
            let more = (each.mayRenew && each.way == .answer) || each.isOutOfReach ? 1 : 0
            #expect((each.attempts...each.attempts + more).contains(attempts), what)
            #expect(result["in_doubt"] as? Int == each.inDoubt, what)
            #expect(result["apns_topic"] as? String == each.topic, what)
            let since = each.isDated ? 1_600_000_000_000 + (Int(each.token.suffix(9), radix: 16) ?? 0) : nil
            #expect(result["unregistered_at_ms"] as? Int == since, what)

            // What is held comes beside it, and only where a circuit opens.
            let retries = found.retries.removeValue(forKey: each.token) ?? []
            #expect(retries.filter { $0 != "held" } == each.retries, what)
            #expect(each.circuit != nil || each.isOutOfReach || !retries.contains("held"), what)
            #expect(found.deadTokens.remove(each.token) != nil ? each.isDated : !each.isDated, what)

            // Every answer that was none of 200 is counted under its word.
            if each.way == .answer, let reason = each.reason {
                let name = reason.hasPrefix("HTTP ") ? "none" : reason == Case.unknown ? "other" : reason
                let line = "apns_worker_reasons_total{app=\"\(each.app)\",reason=\"\(name)\"} \(attempts)\n"
                #expect(metrics.contains(line), what)
            }
        }
    }
}

/// What the topics hold, by device token.
private struct Found {
    var results: [String: [[String: Any]]] = [:]
    /// Of each retry record the reason.
    var retries: [String: [String]] = [:]
    var deadTokens: Set<String> = []

    init(_ scene: Scene) throws {
        for value in try scene.resultObjects() {
            results[value["device_token"] as? String ?? "", default: []].append(value)
        }
        for line in try scene.records(of: scene.configuration.retry, "%k %h") {
            let words = line.split(separator: " ", maxSplits: 1)
            let reason = words.last?.firstMatch(of: /push-retry-reason=([^,]*)/).map { String($0.1) }
            retries[String(words[0]), default: []].append(reason ?? "")
        }
        deadTokens = Set(try scene.records(of: scene.configuration.unregistered, "%k").map(String.init))
    }
}

/// One thing that APNs says, to one notification of an app of its own, and what is to come of it.
private struct Case {
    enum Way: CaseIterable {
        /// As the answer to the request, each time.
        case answer
        /// The request is answered 200; then GOAWAY says it, and the connection ends.
        case goAway
        /// GOAWAY says it in place of the answer, and the connection ends: whether the request was processed nobody
        /// knows. Once.
        case goAwayUnanswered
        /// Nothing is provoked.
        case plain
    }

    /// The app's circuit, which opens.
    struct Circuit {
        /// Apple's, as log and status have it.
        var word: String
        /// Until something good is sent.
        var stays: Bool
    }

    /// Each of its connections ended by an answer that asked for another one, so its host counts as out of reach.
    var isOutOfReach = false
    /// It is about a provider token that may have been renewed at once, if its `iat` was 20 minutes ago: so many sends
    /// more, and after a GOAWAY no circuit. The time of day decides.
    var mayRenew = false

    static let unknown = "ReasonOfTomorrow"

    var app: String
    var way: Way
    var token: String
    var pushType: PushType?
    var givenTopic: String?
    var bundleID: String
    var outcome: String
    var status: Int?
    var reason: String?
    var attempts = 1
    var inDoubt = 0
    /// A 410 with its time, which makes a dead token.
    var isDated = false
    /// The reasons of its retry records.
    var retries: [String] = []
    var circuit: Circuit?
    var topic: String

    var goodToken: String { "00" + token.dropFirst(2) }

    /// An envelope for one device.
    func record(of token: String) -> String {
        let headers = [
            givenTopic.map { #""apns-topic":"\#($0)""# }, pushType.map { #""apns-push-type":"\#($0.text)""# },
        ].compactMap(\.self).joined(separator: ",")
        return #"{"device_token":"\#(token)","app":"\#(app)","headers":{\#(headers)},"payload":{"aps":{"alert":"Hi"}}}"#
    }

    /// - Parameter prefix: of the device token, so many digits as say what is asked for.
    private init(
        _ app: String, _ way: Way, prefix: String, number: Int, outcome: String, status: Int?, bundleID: String? = nil
    ) {
        self.app = app
        self.way = way
        token = prefix + hex(0xC0DE_0000 + number, digits: 64 - prefix.count)
        self.outcome = outcome
        self.status = status
        self.bundleID = bundleID ?? "com.example.\(app)"
        topic = self.bundleID
    }

    /// Of an answer.
    private init(_ app: String, code: String, number: Int, status: Int, reason: String, ending: Reasons.Ending) {
        self.init(app, .answer, prefix: "fa17\(code)0", number: number, outcome: ending.outcome, status: status)
        self.reason = reason
        attempts = ending.attempts
        retries = ending.outcome == "abandoned" ? [reason] : []
        isOutOfReach = ending == .resent
        if ending.isOfCredential { circuit = Circuit(word: reason, stays: true) }
    }

    /// - Parameter codes: what `simulate --help` has for each of Apple's words.
    static func all(codes: [String: String]) throws -> [Case] {
        var cases: [Case] = []
        for reason in ReasonCode.allCases {
            guard reason != .none, reason != .other, let word = reason.text?.description else { continue }
            let row = try Reasons.row(reason)
            guard let code = codes[word] else { throw Unexpected("the simulator has no device token for \(word)") }
            func add(_ make: (_ number: Int) -> Case) { cases.append(make(cases.count)) }
            add {
                var each = Case(
                    "answer-\(reason)", code: code, number: $0, status: row.status, reason: word, ending: row.ending)
                each.isDated = row.ending == .unregistered
                each.mayRenew = reason == .expiredProviderToken
                return each
            }
            // The first digit says what a GOAWAY does with it.
            let digits: (answered: Character, unanswered: Character) =
                switch code.first {
                case "4": ("8", "6")
                case "5": ("9", "7")
                default: ("2", "3")
                }
            add {
                var each = Case(
                    "goaway-\(reason)", .goAway, prefix: "fa17\(digits.answered)\(code.dropFirst())0", number: $0,
                    outcome: "accepted", status: 200)
                if row.ending.isOfCredentialAtOnce { each.circuit = Circuit(word: word, stays: true) }
                each.mayRenew = reason == .expiredProviderToken
                return each
            }
            add {
                var each = Case(
                    "unanswered-\(reason)", .goAwayUnanswered,
                    prefix: "fa17\(digits.unanswered)\(code.dropFirst())1", number: $0, outcome: "accepted", status: 200
                )
                each.attempts = 2
                each.inDoubt = 1
                if row.ending.isOfCredentialAtOnce { each.circuit = Circuit(word: word, stays: false) }
                each.mayRenew = reason == .expiredProviderToken
                return each
            }
        }
        for (status, unknownEnding, missingEnding) in Reasons.statuses {
            for (digit, reason, ending) in [
                ("e", unknown, unknownEnding), ("b", "HTTP \(status)", missingEnding),
            ] {
                var each = Case(
                    "status-\(digit)\(status)", code: "\(digit)\(status)", number: cases.count, status: status,
                    reason: reason, ending: ending)
                // Without a body there is no time.
                each.isDated = ending == .unregistered && digit == "e"
                if each.circuit != nil { each.circuit?.word = "no known reason" }
                cases.append(each)
            }
        }
        cases.append(Case("status-200", .plain, prefix: "00", number: cases.count, outcome: "accepted", status: 200))
        return cases + topics(from: cases.count)
    }

    /// Push types and topics, of which the server says whether they fit.
    private static func topics(from first: Int) -> [Case] {
        var cases: [Case] = []
        func add(_ name: String, _ type: PushType?, given: String? = nil, bundleID: String? = nil, topic: String) {
            var each = Case(
                name, .plain, prefix: "00", number: first + cases.count, outcome: "accepted", status: 200,
                bundleID: bundleID)
            each.pushType = type
            each.givenTopic = given
            each.topic = topic
            cases.append(each)
        }
        for type in PushType.allCases {
            add("type-\(type)", type, topic: "com.example.type-\(type)\(type.topicSuffix ?? "")")
        }
        add("suffixed", .voip, bundleID: "com.example.suffixed.voip", topic: "com.example.suffixed.voip")
        for (name, type, suffix, reason) in [
            ("short", PushType.voip, "", "DeviceTokenNotForTopic"), ("long", .alert, ".voip", "InvalidPushType"),
        ] {
            let topic = "com.example.\(name)\(suffix)"
            add(name, type, given: topic, topic: topic)
            cases[cases.count - 1].outcome = "rejected"
            cases[cases.count - 1].status = 400
            cases[cases.count - 1].reason = reason
        }
        return cases
    }
}

/// Apple's table, and what the worker makes of each row.
private enum Reasons {
    enum Ending {
        case rejected
        case unregistered
        /// Once more from the tier, which was the last attempt.
        case retried
        /// As `retried`, and the circuit of the app's credential opens.
        case credential
        /// At once and over a new connection, then as `retried`: twice each time.
        case resent
        /// At once and over a new connection, then as `credential`.
        case resentThenCredential
        /// As `credential`, of the app's topic alone; sent at once and over a new connection only where its own was a
        /// minute old. A GOAWAY with the word says nothing of the next connection.
        case topic

        var outcome: String {
            switch self {
            case .rejected: "rejected"
            case .unregistered: "unregistered"
            case .retried, .credential, .resent, .resentThenCredential, .topic: "abandoned"
            }
        }

        var attempts: Int {
            switch self {
            case .rejected, .unregistered: 1
            case .retried, .credential, .topic: 2
            case .resent, .resentThenCredential: 4
            }
        }

        var isOfCredential: Bool { self == .credential || self == .resentThenCredential || self == .topic }
        /// Also where nothing was answered yet.
        var isOfCredentialAtOnce: Bool { self == .credential }
    }

    /// The table of status codes, "Handling notification responses from APNs": what comes of one with a reason that
    /// nobody knows; and of one with none, which is a proxy's or another server's where the notification itself is
    /// found fault with.
    static let statuses: [(Int, unknown: Ending, missing: Ending)] = [
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

    /// By Apple's page "Handling notification responses from APNs", which also says: "After 15 minutes, you can retry
    /// JSON payloads that receive response status codes that begin with 5XX. […] Don't retry notification responses
    /// with the error code BadDeviceToken, DeviceTokenNotForTopic, Forbidden, ExpiredToken, Unregistered, or
    /// PayloadTooLarge. You can retry with a delay, if you get the error code TooManyRequests."
    private static let rows: [(status: Int, ending: Ending, reasons: [ReasonCode])] = [
        (
            400, .rejected,
            [
                .badCollapseId, .badDeviceToken, .badExpirationDate, .badMessageId, .badPriority, .badTopic,
                .deviceTokenNotForTopic, .duplicateHeaders, .invalidPushType, .missingDeviceToken, .missingTopic,
                .payloadEmpty,
            ]
        ),
        (400, .resent, [.idleTimeout]), (400, .topic, [.topicDisallowed]),
        (
            403, .credential,
            [
                .badCertificate, .badCertificateEnvironment, .expiredProviderToken, .invalidProviderToken,
                .missingProviderToken, .badEnvironmentKeyIdInToken,
            ]
        ),
        (403, .rejected, [.forbidden]), (403, .resentThenCredential, [.unrelatedKeyIdInToken]),
        (404, .rejected, [.badPath]), (405, .rejected, [.methodNotAllowed]),
        (410, .unregistered, [.expiredToken, .unregistered]), (413, .rejected, [.payloadTooLarge]),
        (429, .resent, [.tooManyProviderTokenUpdates]), (429, .retried, [.tooManyRequests]),
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

    /// Throws where the table lacks a reason.
    static func row(_ reason: ReasonCode) throws -> (status: Int, ending: Ending) {
        guard let row = rows.first(where: { $0.reasons.contains(reason) }) else {
            throw Unexpected("the table lacks \(reason)")
        }
        return (row.status, row.ending)
    }
}
