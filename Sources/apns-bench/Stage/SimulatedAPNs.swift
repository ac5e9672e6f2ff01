/// `apns-worker simulate`: APNs' own windows, streams and checks, and a latency where one is asked for.
final class SimulatedAPNs {
    let address: PushAddress
    private let process: Child

    var processID: Int32 { process.processID }

    /// - Parameter latency: as its option has it: `50ms`; `nil`: none.
    init(_ stage: Stage, latency: String?) throws {
        let ports = try Ports.free(2)
        let directory = stage.scratch.file("simulator")
        process = try Child(
            "simulator",
            [
                stage.programs.worker, "simulate", "--listen", "127.0.0.1:\(ports[0])", "--control", "\(ports[1])",
                "--directory", directory,
            ] + (latency.map { ["--latency", $0] } ?? []), scratch: stage.scratch)
        try awaitServing(ports[0], by: process)
        address = PushAddress(
            port: ports[0], authorityFile: "\(directory)/ca.pem",
            signingKeyFile: "\(directory)/AuthKey_SIMULATOR1.p8", signingKeyID: "SIMULATOR1")
    }
}
