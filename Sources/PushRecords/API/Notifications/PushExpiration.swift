/// Until when APNs keeps a notification for a device that cannot be reached (`apns-expiration`).
///
/// Source: "Sending notification requests to APNs", apns-expiration.
public enum PushExpiration: Hashable, Sendable {
    /// No `apns-expiration` is sent: APNs keeps it by its own policy, for 30 days at most. (It may be gone at any
    /// time.)
    case appleDefault
    /// Tried once, not kept. The worker tries at most 30 seconds.
    case nowOrNever
    /// Kept until then; 1 to 4294967295 seconds since 1970 (UTC).
    case at(secondsSinceEpoch: Int64)
}
