/// What became of a notification; each ends in exactly one.
public enum Outcome: String, CaseIterable, Sendable {
    /// APNs said 200.
    case accepted
    /// 410: the device token is dead; a record also went to the dead-token topic.
    case unregistered
    /// APNs refused it, and it must not be sent again unchanged.
    case rejected
    /// Refused by the worker, never sent.
    case invalid
    /// Its apns-expiration, or `delivery.max_age`, passed before it could be sent, or sent again.
    case expired
    /// Retries used up, or giving up was configured.
    case abandoned
}

/// Which of Apple's two environments.
public enum PushEnvironment: UInt8, CaseIterable, Sendable {
    case production, development

    /// Its word in records and configurations.
    public var text: StaticString {
        switch self {
        case .production: "production"
        case .development: "development"
        }
    }
}
