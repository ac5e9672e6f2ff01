/// What a descriptor is ready for, or is to be watched for: the bits of epoll(7), as numbers so that
/// callers in other modules fold them (a test compares them with the header's).
package struct Readiness: OptionSet, Sendable {
    package let rawValue: UInt32

    @inlinable package init(rawValue: UInt32) { self.rawValue = rawValue }

    @inlinable package static var readable: Readiness { Readiness(rawValue: 0x001) }
    @inlinable package static var writable: Readiness { Readiness(rawValue: 0x004) }
    /// The peer will send nothing more (EPOLLRDHUP): a read says how it ended.
    @inlinable package static var peerClosed: Readiness { Readiness(rawValue: 0x2000) }
    /// Always watched.
    @inlinable package static var hangUp: Readiness { Readiness(rawValue: 0x010) }
    /// Always watched.
    @inlinable package static var failed: Readiness { Readiness(rawValue: 0x008) }
}

extension Readiness {
    /// What only a read can settle: hang-up and failure are always reported, and again and again.
    @inlinable package var needsRead: Bool { rawValue & 0x019 != 0 }
}

/// Names a watched descriptor of one loop; after `unregister` it names nothing, for ever.
package struct Registration: Hashable, Sendable {
    var slot: UInt32
    var generation: UInt32
}
