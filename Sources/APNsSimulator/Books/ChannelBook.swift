internal import Bytes
internal import EventLoop

/// The broadcast channels of every app, in memory only. Thread-safe.
///
/// Source: Apple, "Sending channel management requests to APNs".
package final class ChannelBook: Sendable {
    /// The `message-storage-policy` of a channel, which is fixed when the channel is created.
    package enum Policy: Int, Sendable {
        case nothing = 0
        case mostRecent = 1
    }

    package struct Channel: Sendable, Hashable {
        package var bundleID: String
        /// The channel id: 16 bytes in base64.
        package var id: String
        package var policy: Policy
    }

    private struct State {
        /// Channels by bundle id, in creation order.
        var channels: [String: [Channel]] = [:]
        var random: SplitMix64
    }

    /// Apple's limit: "You can maintain up to 10,000 channels for your app in the development and production
    /// environment, respectively."
    package static let appleLimit = 10_000
    /// The maximum number of channels of one app. Apple's limit applies to each environment, and a simulator represents
    /// one environment.
    let limit: Int
    private let state: Guarded<State>

    init(limit: Int = ChannelBook.appleLimit, seed: UInt64 = 1) {
        self.limit = limit
        state = Guarded(State(random: SplitMix64(seed: seed ^ 0xC4A7)))
    }

    /// Creates a channel and returns its id, or `nil` if the app has reached the limit.
    package func make(bundleID: String, policy: Policy) -> String? {
        state.withLock { state in
            guard state.channels[bundleID, default: []].count < limit else { return nil }
            var bytes: [UInt8] = []
            for _ in 0..<2 {
                let word = state.random.next()
                for index in 0..<8 { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(index * 8))) }
            }
            // Replace a first byte of 0xFA, because a channel id with this first byte could request a fault
            // (`TokenTable`).
            if bytes[0] == 0xFA { bytes[0] = 0 }
            let id = String(decoding: Base64.standard.encode(bytes), as: UTF8.self)
            state.channels[bundleID, default: []].append(Channel(bundleID: bundleID, id: id, policy: policy))
            return id
        }
    }

    /// Returns the policy of a channel, or `nil` if the app has no such channel.
    func policy(of id: String, bundleID: String) -> Policy? {
        state.withLock { $0.channels[bundleID]?.first { $0.id == id }?.policy }
    }

    /// Deletes a channel and returns whether it existed.
    func delete(_ id: String, bundleID: String) -> Bool {
        state.withLock { state in
            guard let index = state.channels[bundleID]?.firstIndex(where: { $0.id == id }) else { return false }
            state.channels[bundleID]?.remove(at: index)
            return true
        }
    }

    func ids(bundleID: String) -> [String] { state.withLock { ($0.channels[bundleID] ?? []).map(\.id) } }

    /// All channels of all apps.
    package var all: [Channel] {
        state.withLock { state in state.channels.sorted { $0.key < $1.key }.flatMap(\.value) }
    }
}

/// Decodes a channel id. Returns `nil` if the text is not base64 of 1 to 100 bytes. The simulator sets this limit
/// itself, because Apple documents none ("don't make assumptions on the channel ID size").
func channelBytes(_ id: UnsafeRawBufferPointer) -> [UInt8]? {
    guard let bytes = Base64.standard.decode(id), (1...100).contains(bytes.count) else { return nil }
    return bytes
}
