@testable import APNs

/// A connection that the transport dialled, as the world sees it.
final class WorldConnection {
    enum Stage { case dialing, ready, draining, gone }

    let number: Int
    let dialledNs: Int64
    let isQuarantine: Bool
    /// How often all connections had been replaced before it was made.
    let replacements: Int
    private weak var client: PooledConnection?
    /// The client's end.
    var channel: MemoryChannel?
    /// When it was seen to be gone.
    var goneNs: Int64?
    var wasReady = false
    /// The peer ended it.
    var endedByPeer = false
    /// It was seen to take requests.
    var wasSeenReady = false
    /// Since when something waits here that the peer's kernel has not acknowledged; `nil`: nothing does.
    var waitingSinceNs: Int64?
    /// Another one was ready when it went.
    var wasAnotherReady = false
    /// Something came over it.
    var wasAsked = false
    /// What the peer answered on it, or its silence accepted.
    var answers = 0
    /// The peer's word is not to be believed.
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

    /// Nothing holds the transport's object any more.
    var isFreed: Bool { client == nil }
    var isLive: Bool { stage == .dialing || stage == .ready }
}
