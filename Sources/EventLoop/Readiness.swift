internal import CLinux

/// What a descriptor is ready for, or is to be watched for: the bits of epoll(7).
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    package static let readable = Readiness(rawValue: EPOLLIN.rawValue)
    package static let writable = Readiness(rawValue: EPOLLOUT.rawValue)
    /// The peer will send nothing more (EPOLLRDHUP): a read says how it ended.
    package static let peerClosed = Readiness(rawValue: EPOLLRDHUP.rawValue)
    /// Always watched.
    package static let hangUp = Readiness(rawValue: EPOLLHUP.rawValue)
    /// Always watched.
    package static let failed = Readiness(rawValue: EPOLLERR.rawValue)
}

/// Names a watched descriptor of one loop; after `unregister` it names nothing, for ever.
package struct Registration: Hashable, Sendable {
    var slot: UInt32
    var generation: UInt32
}
