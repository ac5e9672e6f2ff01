package import PushRecords

/// The settings of a simulator. Each has a default.
package struct SimulatorOptions: Sendable {
    /// The address to listen on: a numeric address, or `localhost`.
    package var host = "127.0.0.1"
    /// The port for notifications. For every port of the simulator, 0 selects a free port.
    package var port: UInt16 = 0
    /// The port of channel management. `nil` disables it.
    package var managementPort: UInt16?
    /// The port of the retired binary gateway. `nil` disables it.
    package var gatewayPort: UInt16?
    package var gatewayFaults = GatewayFaults()
    /// The maximum payload size of the gateway, in bytes. The default is Apple's limit since 2014.
    package var gatewayPayloadLimit = 2048
    /// The port of the feedback service. `nil` disables it.
    package var feedbackPort: UInt16?
    /// The initial items of the feedback service.
    package var feedback: [FeedbackItem] = []
    /// The port of the control endpoint. `nil` disables it.
    package var controlPort: UInt16? = 0
    /// The directory of the certificates and keys. The simulator creates whatever is missing. With `nil`, it keeps the
    /// certificates and keys in memory only.
    package var directory: String?
    /// Additional names and addresses in the server certificate, besides localhost, 127.0.0.1 and ::1.
    package var names: [String] = []
    /// Additional keys that verify provider tokens of any team: the key id, and the path of a `.p8` file or of its
    /// public key in PEM.
    package var keys: [(keyID: String, path: String)] = []
    /// Whether the simulator checks the provider token in `authorization`.
    package var wantsProviderToken = true
    package var environment = PushEnvironment.production
    /// The bundle ids that requests with provider tokens can use. A topic must be one of these ids, with or without a
    /// push type's suffix. An empty list allows all topics.
    package var bundleIDs: [String] = []
    /// Whether the push type must match the suffix of the topic.
    package var checksTopicSuffixes = true
    /// Bundle ids for which the simulator rejects broadcasts and channel management with FeatureNotEnabled.
    package var withoutBroadcast: [String] = []
    /// The SETTINGS_MAX_CONCURRENT_STREAMS before the first valid provider token. The default is 1, which users of
    /// other clients have observed with Apple's servers.
    package var firstStreams: UInt32 = 1
    /// The SETTINGS_MAX_CONCURRENT_STREAMS after the first valid provider token, or on connections that need no token.
    package var streams: UInt32 = 1000
    package var latency = Latency.zero
    package var faults: [FaultRule] = []
    /// The seed of random latencies, and of the ids that the simulator generates.
    package var seed: UInt64 = 1
    /// The path of a file that preserves the recorded requests after the process ends (`--book`).
    package var book: String?

    /// An item of the feedback service: the token of a device that removed the app.
    package struct FeedbackItem: Sendable, Hashable {
        package var token: DeviceToken
        /// The time at which the app was removed, in seconds since the epoch.
        package var seconds: UInt32

        /// Creates an item. Throws a one-line error if `token` is not a device token in hex.
        package init(token: String, seconds: UInt32) throws(SimulatorError) {
            do { self.token = try DeviceToken(hex: token) } catch {
                throw SimulatorError(
                    "'\(token)' is not a device token: expected an even number of hex digits, at most 200")
            }
            self.seconds = seconds
        }
    }

    package init() {}
}
