internal import EventLoop
package import Network

/// Connects to a host, through its proxy where it has one, and closes again without a word: not even TLS is begun.
///
/// For a service that may not be asked for the asking's sake: the feedback service forgets what it told whoever shook
/// hands with it. Runs a loop of its own on the calling thread, so it is not for a thread that has one.
package enum ReachProbe {
    /// - Returns: the address that was reached, of the proxy where there is one.
    /// - Throws: `ChannelEnd`, whose text names host, address and cause.
    package static func run(_ target: DialTarget, timeoutNs: Int64 = 10_000_000_000) throws(ChannelEnd) -> String {
        let loop: Loop
        let resolver: Resolver
        do {
            loop = try Loop()
            resolver = try Resolver()
        } catch {
            throw ChannelEnd(.unreachable, "\(DialTarget.text(target.host, target.port)): \(error)")
        }
        defer { resolver.stop() }
        var result: Result<String, ChannelEnd>?
        let attempt = Dialer(loop: loop, resolver: resolver).dial(target, timeoutNs: timeoutNs) { end in
            result = end.map { "\($0.address)" }
        }
        defer { attempt.cancel() }
        while true {
            if let result { return try result.get() }
            loop.runOnce(timeoutNs: 100_000_000)
        }
    }
}
