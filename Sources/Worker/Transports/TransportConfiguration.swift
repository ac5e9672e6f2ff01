internal import APNs
internal import Configuration

/// The worker's settings that apply to the transports of all apps.
struct TransportSettings: Sendable {
    /// The time without a response after which a request is in doubt.
    let responseTimeoutNs: Int64
    /// The limit to which `binary.window.auto_adjust` lengthens a resend window: the time that a rebalance waits for
    /// unanswered notifications (`drain.rebalance`).
    let longestWindowNs: Int64
    /// Returns whether a new HTTP/2 connection reports the header of each frame (log level `trace`).
    let tracesFrames: @Sendable () -> Bool
}

extension LoadedApp {
    private var connections: ConnectionSettings {
        var result = ConnectionSettings(target, tls: context)
        result.minimum = settings.connections.min
        result.maximum = settings.connections.max
        result.idleNs = settings.connections.idle.nanoseconds
        result.maxAgeNs = settings.connections.maxAge.nanoseconds
        return result
    }

    func transportConfiguration(_ responseTimeoutNs: Int64) -> APNsConfiguration {
        var result = APNsConfiguration(connections)
        result.keepalive.idleNs = settings.connections.ping.nanoseconds
        result.responseTimeoutNs = responseTimeoutNs
        result.indexAuthorization = settings.indexesAuthorization
        return result
    }

    func binaryConfiguration(_ longestWindowNs: Int64) -> BinaryConfiguration {
        let binary = settings.binary ?? BinarySettings()
        var result = BinaryConfiguration(connections)
        result.format = binary.format.ofTransport
        result.window.durationNs = binary.window.duration.nanoseconds
        result.window.longestNs =
            binary.window.adjusts ? max(longestWindowNs, result.window.durationNs) : result.window.durationNs
        result.window.notifications = binary.window.limit
        result.window.bytes = binary.window.bytes
        result.resendsDiscarded = binary.resends
        result.answersFence = binary.answersFence
        result.payloadLimit = binary.payloadLimit
        return result
    }
}

extension BinarySettings.Format {
    var ofTransport: BinaryConfiguration.Format { .init(rawValue: rawValue) ?? .framed }
}
