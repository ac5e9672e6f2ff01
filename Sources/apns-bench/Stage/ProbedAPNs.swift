/// The bench's own server in the place of APNs, which tells what it has seen.
struct ProbedAPNs {
    private let server: OwnServer

    init(_ stage: Stage) throws { server = try OwnServer(probeServer, stage) { $0.address(port: $1) } }

    var address: PushAddress { server.address }

    /// Ends it; its figures by name.
    func end() throws -> [String: Int] {
        var figures: [String: Int] = [:]
        for line in try server.end() {
            let words = line.split(separator: " ")
            if words.count == 2, let number = Int(words[1]) { figures[String(words[0])] = number }
        }
        return figures
    }
}
