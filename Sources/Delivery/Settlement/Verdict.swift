package import PushRecords

/// What an answer leads to. `delivery.verdicts` has the same words.
package enum Verdict: String, CaseIterable, Sendable {
    /// Delivered to APNs.
    case accept
    /// The device token is dead.
    case unregister
    /// Never to be sent again unchanged.
    case reject
    /// At once, on whatever connection.
    case resend
    /// Later, through a retry tier.
    case retry
    /// Our credential is refused, not this notification.
    case credentialFault = "credential_fault"
}

/// A row of the table: what an answer leads to, and what else the decision needs.
package struct VerdictRow: Equatable, Sendable {
    package var verdict: Verdict
    /// Of a `resend`: what the same answer to the next try leads to.
    package var again: Verdict
    /// Of a `resend`: only where a newer connection is there than the try went over (`Completion.carriedOlderToken`),
    /// else `again`.
    package var needsNewer = false
    /// Of a `retry` or `credentialFault`: the delay asked for.
    package var delayMs: Int64

    package init(
        _ verdict: Verdict, again: Verdict? = nil, needsNewer: Bool = false,
        delayMs: Int64 = VerdictTable.shortDelayMs
    ) {
        self.verdict = verdict
        self.needsNewer = needsNewer
        self.again = again ?? verdict
        self.delayMs = delayMs
    }
}

/// The one table of what APNs' answers lead to: by reason first, by status when the reason is unknown or could not be
/// read. Source: Apple, "Handling notification responses from APNs"; why each is so: <doc:Verdicts>.
package struct VerdictTable: Sendable {
    package static let shortDelayMs: Int64 = 30_000
    /// Apple, of 500 and 503: "retry after 15 minutes".
    package static let longDelayMs: Int64 = 900_000

    private var rows: [VerdictRow?]
    private var overridesByText: [String: VerdictRow] = [:]

    /// - Parameter overrides: `delivery.verdicts`, by Apple's word.
    package init(overrides: [String: Verdict] = [:]) {
        rows = Array(repeating: nil, count: 256)
        for code in ReasonCode.allCases { rows[Int(code.rawValue)] = Self.standard(code) }
        for (word, verdict) in overrides {
            if let code = ReasonCode(word) {
                let delayMs = rows[Int(code.rawValue)]?.delayMs ?? Self.shortDelayMs
                rows[Int(code.rawValue)] = VerdictRow(verdict, delayMs: delayMs)
            } else {
                overridesByText[word] = VerdictRow(verdict)
            }
        }
    }

    /// The row of an answer.
    ///
    /// - Parameter text: of a reason that is `.other`.
    package func row(reason: ReasonCode, text: String?, status: UInt16) -> VerdictRow {
        if status == 200 { return VerdictRow(.accept) }
        if let row = rows[Int(reason.rawValue)] { return row }
        if !overridesByText.isEmpty, let text, let row = overridesByText[text] { return row }
        if AnswerOrigin.isForeign(status, reason) { return VerdictRow(.retry, delayMs: Self.longDelayMs) }
        return Self.byStatus(status)
    }

    private static func byStatus(_ status: UInt16) -> VerdictRow {
        switch status {
        case 410: VerdictRow(.unregister)
        case 403: VerdictRow(.credentialFault)
        case 429: VerdictRow(.retry)
        // Of the binary protocol: a processing error, and none that it knows.
        case 1, 255: VerdictRow(.retry)
        case 500...599: VerdictRow(.retry, delayMs: longDelayMs)
        default: VerdictRow(.reject)
        }
    }

    /// `nil`: the status decides.
    private static func standard(_ reason: ReasonCode) -> VerdictRow? {
        switch reason {
        case .none, .other:
            nil
        case .unregistered, .expiredToken:
            VerdictRow(.unregister)
        case .badDeviceToken, .deviceTokenNotForTopic, .forbidden, .payloadTooLarge, .badCollapseId,
            .badExpirationDate, .badMessageId, .badPriority, .badTopic, .duplicateHeaders, .invalidPushType,
            .missingDeviceToken, .missingTopic, .payloadEmpty, .badPath, .methodNotAllowed,
            .featureNotEnabled, .missingChannelId, .badChannelId, .channelNotRegistered, .badRequestParams,
            .badRequestPayload, .missingPushType, .cannotCreateChannelConfig:
            VerdictRow(.reject)
        case .topicDisallowed:
            // Apple knows a new bundle id on new connections only; the transport makes some before it hands the
            // completion over, where it did not just do so. Then the credential is not for this one of the app's bundle
            // ids.
            VerdictRow(.resend, again: .credentialFault, needsNewer: true)
        case .idleTimeout:
            VerdictRow(.resend)
        case .expiredProviderToken:
            // Resent when the try carried an older token than the connection has by now
            // (`Completion.carriedOlderToken`; the transport renews it before it hands the completion over, where it
            // may).
            VerdictRow(.credentialFault)
        case .unrelatedKeyIdInToken:
            VerdictRow(.resend, again: .credentialFault)
        case .badCertificate, .badCertificateEnvironment, .invalidProviderToken, .missingProviderToken,
            .badEnvironmentKeyIdInToken, .badEnvironmentKeyInToken, .topicMismatch:
            VerdictRow(.credentialFault)
        case .tooManyProviderTokenUpdates:
            VerdictRow(.resend, again: .retry)
        case .tooManyRequests:
            VerdictRow(.retry)
        case .internalServerError, .serviceUnavailable, .serviceUnavailableSpaced, .shutdown:
            VerdictRow(.retry, delayMs: longDelayMs)
        }
    }
}
