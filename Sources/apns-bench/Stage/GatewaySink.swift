/// The bench's own gateway of the binary protocol, which takes everything.
struct GatewaySink {
    private let server: OwnServer

    init(_ stage: Stage) throws { server = try OwnServer(sinkServer, stage) { $0.gateway(port: $1) } }

    var address: PushAddress { server.address }

    /// Ends it.
    ///
    /// - Returns: how many notifications it has taken.
    func end() throws -> Int {
        guard let count = try server.end().last.flatMap({ Int($0) }) else { throw server.failure }
        return count
    }
}
