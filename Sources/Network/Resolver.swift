package import EventLoop

/// Resolves names on a thread of its own with getaddrinfo(3). Any thread.
package final class Resolver: Sendable {
    package init() throws(SystemError) { fatalError("not yet") }

    /// All addresses of a name, IPv4 and IPv6, in the order of getaddrinfo; literals need no lookup.
    /// The answer, or the failure when `timeoutNs` is over, comes once, on the loop's thread, never from inside this call.
    package func resolve(
        host: String, port: UInt16, timeoutNs: Int64, loop: Loop,
        then: @escaping @Sendable (Result<[SocketAddress], ChannelEnd>) -> Void
    ) { fatalError("not yet") }

    /// Ends the thread once its current lookup is over.
    package func stop() { fatalError("not yet") }
}
