package import PushRecords

/// The consequence of an answer from APNs. `delivery.verdicts` uses the same names.
package enum Verdict: String, CaseIterable, Sendable {
    /// APNs accepted the notification.
    case accept
    /// The device token is dead.
    case unregister
    /// The notification must not be sent again unchanged.
    case reject
    /// The notification is sent again from memory, immediately or after a second.
    case resend
    /// The notification is sent again later, from a retry tier.
    case retry
    /// Apple refuses the app's credential. The notification is not the cause.
    case credentialFault = "credential_fault"
}

/// The verdict on one kind of answer, and the conditions and the delay that apply to this verdict.
package struct VerdictRow: Equatable, Sendable {
    package var verdict: Verdict
    /// For `resend`, the verdict if the next send gets the same answer.
    package var again: Verdict
    /// Whether `resend` applies only if there is a newer connection than that of the send
    /// (`Completion.carriedOlderToken`). Without a newer connection, `again` applies.
    package var needsNewer = false
    /// For `retry`, the minimum delay.
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

/// The verdicts by reason, or by status if the reason is unknown or unreadable. Source: Apple, "Handling notification
/// responses from APNs". <doc:Verdicts> explains each row.
package struct VerdictTable: Sendable {
    package static let shortDelayMs: Int64 = 30_000
    /// The delay after 500 and 503. Apple: "retry after 15 minutes".
    package static let longDelayMs: Int64 = 900_000

    private var rows: [VerdictRow?]
    private var overridesByText: [String: VerdictRow] = [:]

    /// - Parameter overrides: The verdicts of `delivery.verdicts`, by Apple's reason.
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

    /// Returns the row of an answer.
    ///
    /// - Parameter text: Apple's reason if `reason` is `.other`.
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
        // Statuses of the binary protocol: 1 is "processing error", and 255 is "none (unknown)".
        case 1, 255: VerdictRow(.retry)
        case 500...599: VerdictRow(.retry, delayMs: longDelayMs)
        default: VerdictRow(.reject)
        }
    }

    /// Returns the row of a reason, or `nil` if the status decides.
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
            // Apple accepts a new bundle id only on new connections. The transport therefore replaces its connections
            // before it reports the completion, unless the connection or the last replacement is recent. If the answer
            // repeats, the credential probably does not belong to this bundle id.
            VerdictRow(.resend, again: .credentialFault, needsNewer: true)
        case .idleTimeout:
            VerdictRow(.resend)
        case .expiredProviderToken:
            // The machine resends the notification if a newer token exists (`Completion.carriedOlderToken`). The
            // transport renews the token, if allowed, before it reports the completion.
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
