package import PushRecords

/// The settings of a simulator; every one has a default.
package struct SimulatorOptions: Sendable {
    /// A numeric address, or `localhost`.
    package var host = "127.0.0.1"
    /// 0 takes any free port, as for the other ports, which are on the same host.
    package var port: UInt16 = 0
    /// The port of channel management, if it is served.
    package var managementPort: UInt16?
    /// The port of the retired binary gateway, if it is served.
    package var gatewayPort: UInt16?
    package var gatewayFaults = GatewayFaults()
    /// The longest payload at the gateway, in bytes; the default is Apple's since 2014.
    package var gatewayPayloadLimit = 2048
    /// The port of the feedback service, if it is served.
    package var feedbackPort: UInt16?
    /// The items of the feedback service at the start.
    package var feedback: [FeedbackItem] = []
    /// The port of the control endpoint, if it is served.
    package var controlPort: UInt16? = 0
    /// The directory of certificates and keys, which are created on the first start. Without one they are in memory.
    package var directory: String?
    /// Further names and addresses of the server's certificate, beside localhost, 127.0.0.1 and ::1.
    package var names: [String] = []
    /// Further keys for provider tokens, of any team: the `.p8`, or its public half in PEM.
    package var keys: [(keyID: String, path: String)] = []
    /// Whether `authorization` is checked.
    package var wantsProviderToken = true
    package var environment = PushEnvironment.production
    /// The bundle ids that may be pushed to, with the suffixes of push types. Empty allows all.
    package var bundleIDs: [String] = []
    /// Whether a push type must match the suffix of its topic.
    package var checksTopicSuffixes = true
    /// Bundle ids for which broadcast was not set up: FeatureNotEnabled.
    package var withoutBroadcast: [String] = []
    /// SETTINGS_MAX_CONCURRENT_STREAMS before a connection showed a valid provider token; as seen at Apple: 1.
    package var firstStreams: UInt32 = 1
    /// SETTINGS_MAX_CONCURRENT_STREAMS after it.
    package var streams: UInt32 = 1000
    package var latency = Latency.zero
    package var faults: [FaultRule] = []
    /// The seed of latencies, new ids and split frames.
    package var seed: UInt64 = 1
    /// A file that keeps the books after the process ends.
    package var book: String?

    /// A device token without the app.
    package struct FeedbackItem: Sendable, Hashable {
        package var token: DeviceToken
        /// When the app was removed, since the epoch.
        package var seconds: UInt32

        /// Throws one line if the text is no device token in hex.
        package init(token: String, seconds: UInt32) throws(SimulatorError) {
            do { self.token = try DeviceToken(hex: token) } catch {
                throw SimulatorError("'\(token)' is no device token: an even number of hex digits, at most 200")
            }
            self.seconds = seconds
        }
    }

    package init() {}
}
