/// When to speak of client certificates that end: a value machine. In its last 30 days a certificate is warned of once,
/// in the log; in its last seven it is a problem, and said every day (`Fault.Kind.expiring`).
struct CertificateExpiries {
    static let warningMs: Int64 = 30 * 86_400_000
    static let problemMs: Int64 = 7 * 86_400_000

    /// Of each app's certificate, when it ends and whether that was within 30 days.
    private var seen: [Int: (endsMs: Int64, isNear: Bool)] = [:]

    /// Whether the certificate's last 30 days have begun since it was seen first: what it says then was said when it
    /// was loaded.
    ///
    /// - Parameter app: by its index.
    mutating func beginsToEnd(_ app: Int, endsMs: Int64, nowMs: Int64) -> Bool {
        let isNear = Self.isWithin(Self.warningMs, endsMs: endsMs, nowMs: nowMs)
        let before = seen.updateValue((endsMs, isNear), forKey: app)
        guard let before, before.endsMs == endsMs else { return false }
        return isNear && !before.isNear
    }

    static func isWithin(_ spanMs: Int64, endsMs: Int64, nowMs: Int64) -> Bool {
        let left = endsMs.subtractingReportingOverflow(nowMs)
        return left.overflow ? endsMs < nowMs : left.partialValue <= spanMs
    }
}
