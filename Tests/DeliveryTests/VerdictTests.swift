import PushRecords
import Testing

@testable import Delivery

struct VerdictTests {
    struct Row: CustomTestStringConvertible {
        var reason: String
        var status: UInt16
        var verdict: Verdict
        var again: Verdict?
        var delayMs: Int64?
        var testDescription: String { "\(status) \(reason)" }

        init(_ status: UInt16, _ reason: String, _ verdict: Verdict, again: Verdict? = nil, delayMs: Int64? = nil) {
            self.status = status
            self.reason = reason
            self.verdict = verdict
            self.again = again
            self.delayMs = delayMs
        }
    }

    /// The rows of Apple's page "Handling notification responses from APNs" with their verdicts (<doc:Verdicts>).
    static let apple: [Row] = [
        Row(400, "BadCollapseId", .reject), Row(400, "BadDeviceToken", .reject),
        Row(400, "BadExpirationDate", .reject), Row(400, "BadMessageId", .reject), Row(400, "BadPriority", .reject),
        Row(400, "BadTopic", .reject), Row(400, "DeviceTokenNotForTopic", .reject),
        Row(400, "DuplicateHeaders", .reject), Row(400, "IdleTimeout", .resend), Row(400, "InvalidPushType", .reject),
        Row(400, "MissingDeviceToken", .reject), Row(400, "MissingTopic", .reject), Row(400, "PayloadEmpty", .reject),
        Row(400, "TopicDisallowed", .resend, again: .credentialFault), Row(403, "BadCertificate", .credentialFault),
        Row(403, "BadCertificateEnvironment", .credentialFault), Row(403, "ExpiredProviderToken", .credentialFault),
        Row(403, "Forbidden", .reject), Row(403, "InvalidProviderToken", .credentialFault),
        Row(403, "MissingProviderToken", .credentialFault),
        Row(403, "UnrelatedKeyIdInToken", .resend, again: .credentialFault),
        Row(403, "BadEnvironmentKeyIdInToken", .credentialFault), Row(404, "BadPath", .reject),
        Row(405, "MethodNotAllowed", .reject), Row(410, "ExpiredToken", .unregister),
        Row(410, "Unregistered", .unregister), Row(413, "PayloadTooLarge", .reject),
        Row(429, "TooManyProviderTokenUpdates", .resend, again: .retry),
        Row(429, "TooManyRequests", .retry, delayMs: 30_000), Row(500, "InternalServerError", .retry, delayMs: 900_000),
        Row(503, "ServiceUnavailable", .retry, delayMs: 900_000), Row(503, "Shutdown", .retry, delayMs: 900_000),
    ]

    static let more: [Row] = [
        Row(403, "BadEnvironmentKeyInToken", .credentialFault), Row(400, "FeatureNotEnabled", .reject),
        Row(400, "MissingChannelId", .reject), Row(400, "BadChannelId", .reject),
        Row(400, "ChannelNotRegistered", .reject), Row(400, "BadRequestParams", .reject),
        Row(400, "BadRequestPayload", .reject), Row(400, "MissingPushType", .reject),
        Row(400, "CannotCreateChannelConfig", .reject), Row(403, "TopicMismatch", .credentialFault),
        Row(503, "Service Unavailable", .retry, delayMs: 900_000),
    ]

    static func code(_ reason: String) -> ReasonCode {
        Array(reason.utf8).withUnsafeBytes { ReasonCode(text: $0) ?? .other }
    }

    @Test(arguments: apple + more)
    func `Each reason has the verdict of Apple's page, or of the list of other known reasons`(_ row: Row) {
        let code = Self.code(row.reason)
        #expect(code != .other)
        let found = VerdictTable().row(reason: code, text: nil, status: row.status)
        #expect(found.verdict == row.verdict)
        #expect(found.again == row.again ?? row.verdict)
        if let delayMs = row.delayMs { #expect(found.delayMs == delayMs) }
        // The reason decides, regardless of the status.
        #expect(VerdictTable().row(reason: code, text: nil, status: 418) == found)
    }

    @Test func `This test covers every reason of Apple's page, and the verdict table every reason code`() {
        #expect(Set(Self.apple.map { Self.code($0.reason).rawValue }) == Set(1...32))
        let named = Set((Self.apple + Self.more).map { Self.code($0.reason) })
        #expect(Set(ReasonCode.allCases).subtracting(named) == [.none, .other])
    }

    @Test(
        arguments: [
            (200, Verdict.accept, 0), (410, .unregister, 0), (403, .credentialFault, 30_000), (429, .retry, 30_000),
            (500, .retry, 900_000), (503, .retry, 900_000), (599, .retry, 900_000), (400, .reject, 0),
            (404, .reject, 0), (413, .reject, 0), (302, .reject, 0),
        ] as [(UInt16, Verdict, Int64)])
    func `If an answer's reason is unknown, its status decides the verdict`(
        _ status: UInt16, _ verdict: Verdict, _ delayMs: Int64
    ) {
        let row = VerdictTable().row(reason: .other, text: "NobodyKnows", status: status)
        #expect(row.verdict == verdict)
        if delayMs > 0 { #expect(row.delayMs == delayMs) }
        let without = VerdictTable().row(reason: .none, text: nil, status: status)
        #expect(without == (verdict == .reject ? VerdictRow(.retry, delayMs: 900_000) : row))
    }

    @Test(arguments: [100, 204, 301, 302, 400, 404, 405, 407, 408, 413, 421, 499, 600] as [UInt16])
    func `An answer without a reason counts as another server's, and its notification is retried`(_ status: UInt16) {
        #expect(AnswerOrigin.isForeign(status, .none) && !AnswerOrigin.isForeign(status, .badTopic))
        #expect(VerdictTable().row(reason: .none, text: nil, status: status).verdict == .retry)
    }

    @Test(arguments: Verdict.allCases)
    func `The verdict of every reason can be overridden, including an unknown reason's`(_ verdict: Verdict) {
        let table = VerdictTable(overrides: ["Shutdown": verdict, "BadDeviceToken": verdict, "NextYear": verdict])
        #expect(table.row(reason: .shutdown, text: nil, status: 503) == VerdictRow(verdict, delayMs: 900_000))
        #expect(table.row(reason: .badDeviceToken, text: nil, status: 400).verdict == verdict)
        #expect(table.row(reason: .other, text: "NextYear", status: 400).verdict == verdict)
        #expect(table.row(reason: .other, text: "TheYearAfter", status: 400).verdict == .reject)
        #expect(table.row(reason: .unregistered, text: nil, status: 410).verdict == .unregister)
    }
}
