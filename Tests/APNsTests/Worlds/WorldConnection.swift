@testable import APNs

/// A connection of the transport, as seen by the world.
final class WorldConnection {
    enum Stage { case dialing, ready, draining, gone }

    let number: Int
    let dialledNs: Int64
    let isQuarantine: Bool
    /// The number of times that all connections had been replaced before this dial.
    let replacements: Int
    private weak var client: PooledConnection?
    /// The client's channel.
    var channel: MemoryChannel?
    /// When the connection was found to be closed.
    var goneNs: Int64?
    var wasReady = false
    /// Whether the peer ended the connection.
    var endedByPeer = false
    /// Whether the connection was found ready for requests.
    var wasSeenReady = false
    /// The time since which bytes wait that the peer's kernel has not acknowledged, or `nil` if none do.
    var waitingSinceNs: Int64?
    /// Whether another connection was ready when this one closed.
    var wasAnotherReady = false
    /// Whether a request arrived over the connection.
    var wasAsked = false
    /// The number of requests that the peer answered or its silence accepted.
    var answers = 0
    /// Whether the peer gives false answers.
    var lies = false

    init(number: Int, dialledNs: Int64, delegate: AnyObject) {
        self.number = number
        self.dialledNs = dialledNs
        client = delegate as? PooledConnection
        isQuarantine = client?.isQuarantine ?? false
        replacements = client?.order.replacements ?? 0
    }

    var stage: Stage {
        guard let client else { return .gone }
        return switch client.phase {
        case .dialing, .opening: .dialing
        case .ready: .ready
        case .draining: .draining
        case .closed: .gone
        }
    }

    /// Whether the transport's connection object was deallocated.
    var isFreed: Bool { client == nil }
    var isLive: Bool { stage == .dialing || stage == .ready }
}
