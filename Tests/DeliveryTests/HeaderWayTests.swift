import Testing

@testable import Delivery
@testable import PushRecords

/// Apple's headers on their whole way: from a record through the machine's block to a request, and through a retry
/// record back to a request. Each comes out as it went in, or its notification is refused with its reason and never
/// sent.
struct HeaderWayTests {
    /// A header's name, and values with what becomes of each; `nil`: it is sent.
    struct Row: CustomTestStringConvertible, Sendable {
        let name: String
        let values: [(bytes: [UInt8], refusal: ReasonCode?)]
        var testDescription: String { name }

        init(_ name: String, _ values: [([UInt8], ReasonCode?)]) {
            self.name = name
            self.values = values.map { (bytes: $0.0, refusal: $0.1) }
        }

        init(_ name: String, right: [String], wrong: [String], _ reason: ReasonCode) {
            self.init(name, right.map { (Array($0.utf8), nil) } + wrong.map { (Array($0.utf8), reason) })
        }
    }

    /// All lengths around the limit, and every byte alone, first, last and in between.
    private static var collapseID: Row {
        let limit = RecordLimits.collapseID
        var values = ([0, 1, 2, 7, 8, 9, limit - 1, limit, limit + 1, 2 * limit, 10_000] as [Int]).map {
            [UInt8](repeating: 0x78, count: $0)
        }
        for byte in UInt8.min ... .max {
            values += [[byte], [byte, 0x78], [0x78, byte], [0x78, byte, 0x79]]
            values += [0, limit / 2, limit - 1].map { place in
                var text = [UInt8](repeating: 0x78, count: limit)
                text[place] = byte
                return text
            }
        }
        return Row(
            "apns-collapse-id",
            values.map { text in
                let isPrintable = text.allSatisfy { $0 >= 0x20 && $0 <= 0x7E }
                let isRight =
                    isPrintable && (1...limit).contains(text.count) && text.first != 0x20 && text.last != 0x20
                return (text, isRight ? nil : .badCollapseId)
            })
    }

    static let rows =
        [
            collapseID,
            Row(
                "apns-topic", right: ["com.example.shop", "com.example.shop.voip", String(repeating: "s", count: 255)],
                wrong: ["", "com.example.sho", "com.example.shop ", "ü", String(repeating: "s", count: 256)], .badTopic),
            Row(
                "apns-push-type", right: PushType.allCases.map(\.text.description), wrong: ["", "Alert", "alerts"],
                .invalidPushType),
            Row("apns-priority", right: ["1", "5", "10"], wrong: ["", "0", "05", "11", "a"], .badPriority),
            Row(
                "apns-expiration", right: ["0", "1800000001", "4294967295"], wrong: ["", "-1", "4294967296", "1.5"],
                .badExpirationDate),
            Row(
                "apns-id", right: ["123e4567-e89b-12d3-a456-4266554400a0", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
                wrong: ["", "123e4567-e89b-12d3-a456-4266554400a", "00000000-0000-0000-0000-000000000000"],
                .badMessageId),
        ]

    @Test(arguments: rows)
    func `Each of Apple's headers is sent and retried as it came, or refused with its reason`(row: Row) throws {
        for (value, refusal) in row.values {
            if let broken = try follow([(row.name, value)], refusal) {
                Issue.record("\(row.name): \(String(decoding: value.prefix(80), as: UTF8.self)): \(broken)")
            }
        }
    }

    @Test func `All headers together are sent and retried as they came`() throws {
        let headers = try Self.rows.map { row in
            (row.name, try #require(row.values.last { $0.refusal == nil }).bytes)
        }
        #expect(try follow(headers, nil) == nil)
    }

    @Test func `The rows have every header that goes to Apple for a device`() {
        let known = HeaderName.allCases.map(\.text.description).filter { $0.hasPrefix("apns-") }
        #expect(Set(Self.rows.map(\.name)) == Set(known).subtracting(["apns-channel-id"]))
    }

    /// Follows one notification with these headers; what went another way than it should, in words.
    private func follow(_ headers: [(String, [UInt8])], _ refusal: ReasonCode?) throws -> String? {
        let long = AppRoute(
            name: "shop", environment: .production,
            bundleIDs: ["com.example.shop", String(repeating: "s", count: 255)], guardPolicy: .off)
        let (rig, partition) = Rig.ready(apps: [long])
        var given = headers
        if !headers.contains(where: { $0.0 == "apns-topic" }) {
            given.append(("apns-topic", Array("com.example.shop".utf8)))
        }
        rig.receive(partition, 0, key: Rig.token("a"), value: #"{"aps":{}}"#, headers: given)
        rig.send()
        guard let request = rig.sent.first else {
            guard let id = rig.machine.nextProduction(for: .results) else { return "there is no result" }
            let reason = rig.machine.withResult(id, now: rig.now) { content, ending in
                ending.outcome == .invalid ? ending.reason : ReasonCode.none
            }
            return reason == refusal ? nil : "refused as \(reason)"
        }
        guard refusal == nil else { return "sent, and not refused" }
        let sent = Self.lines(request.headers)
        if let broken = Self.difference(sent, given) { return "the request has \(broken)" }

        rig.answer("a", 500, .internalServerError)
        // Now or never.
        if request.headers.expiration == 0 { return rig.retry == nil ? nil : "kept for later" }
        guard let (tier, id) = rig.retry else { return "there is no retry record" }
        return rig.machine.withRetry(id) { content, order in
            var writer = RetryWriter(apps: [RecordApp(name: "shop", environment: .production)])
            let record = writer.write(content, order)
            var parser = RequestParser()
            let again = parser.parse(key: record.key, value: record.value, headers: record.headers, role: .retry)
            if again.isInvalid || again.retry == nil { return "tier \(tier) has what is refused: \(again.detail.text)" }
            let read = Self.lines(again.headers)
            return read == sent ? nil : "the retry record has \(read), the request had \(sent)"
        }
    }

    /// As a record would say them.
    private static func lines(_ headers: NotificationHeaders) -> [String: [UInt8]] {
        var lines = [
            "apns-topic": Array(headers.topic), "apns-push-type": Array(headers.pushType.text.description.utf8),
        ]
        if headers.priority > 0 { lines["apns-priority"] = Array("\(headers.priority)".utf8) }
        if let expiration = headers.expiration { lines["apns-expiration"] = Array("\(expiration)".utf8) }
        if !headers.collapseID.isEmpty { lines["apns-collapse-id"] = Array(headers.collapseID) }
        lines["apns-id"] = Array(headers.apnsID.description.utf8)
        return lines
    }

    /// What is not as it was given; what was not given are defaults.
    private static func difference(_ lines: [String: [UInt8]], _ given: [(String, [UInt8])]) -> String? {
        for (name, value) in given where lines[name] != value {
            return "\(name): \(lines[name].map { String(decoding: $0, as: UTF8.self) } ?? "nothing")"
        }
        let isBackground = given.contains { $0.1 == Array("background".utf8) }
        let defaults = Set(["apns-push-type", "apns-id"] + (isBackground ? ["apns-priority"] : []))
        let more = Set(lines.keys).subtracting(given.map(\.0)).subtracting(defaults)
        return more.isEmpty ? nil : "\(more) that nobody gave"
    }
}

extension Rig {
    /// The first retry record that waits to be produced, and its tier.
    fileprivate var retry: (Int, NotificationID)? {
        for tier in machine.settlement.settings.tiers.indices {
            if let id = machine.nextProduction(for: .retry(tier: tier)) { return (tier, id) }
        }
        return nil
    }
}
