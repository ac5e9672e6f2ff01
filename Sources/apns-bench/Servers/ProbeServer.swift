import Network

/// `apns-bench probe-server`: a name and a number a line.
let probeServer = TLSServerCommand(
    name: "probe-server",
    about: "Answers 200 to every request, counts bytes of HEADERS, and looks when a request came.",
    alpn: ["h2"])

func runProbeServer(_ arguments: [String]) -> Int32 {
    let counts = ProbeCounts()
    return probeServer.run(arguments) {
        ProbeConnection(counts, $0)
    } seen: {
        counts.text
    }
}

/// What came over all connections.
final class ProbeCounts {
    var requests = 0
    /// Of HEADERS and CONTINUATION frames, without the nine bytes that begin each.
    var headerBytes = 0
    /// From `at_us` in a payload to the request's last byte here, in microseconds; those that have one.
    private var delaysUs: [Int32] = []
    private static let delayLimit = 4_000_000

    func note(delayUs: Int64) {
        if delaysUs.count < Self.delayLimit { delaysUs.append(Int32(clamping: delayUs)) }
    }

    var text: String {
        let times = Percentiles(ofMicroseconds: delaysUs)
        return """
            requests \(requests)
            header_bytes \(headerBytes)
            timed \(delaysUs.count)
            p50_us \(Int(times.p50 * 1_000))
            p99_us \(Int(times.p99 * 1_000))
            p999_us \(Int(times.p999 * 1_000))
            max_us \(delaysUs.max() ?? 0)

            """
    }
}
