import Delivery
import Observability
import TestSupport
import Testing

@testable import Worker

/// The log lines about connection events.
@Suite struct EventLogTests {
    @Test(
        arguments: [
            (.connected(address: "[::1]:443", streams: 1), "info apns: connected app=shop address=[::1]:443 streams=1"),
            // A gateway of the binary protocol has no streams.
            (.connected(address: "a:2195", streams: nil), "info apns: connected app=shop address=a:2195"),
            // The address at the beginning of a reason has its own field.
            (
                .connectFailed(host: "h:443", reason: "h:443: 1.2.3.4:443: Connection refused", retryInMs: 7),
                "warning apns: cannot connect, retrying app=shop host=h:443 reason=\"1.2.3.4:443: Connection refused\" "
                    + "retry_in_ms=7"
            ),
            (
                .connectFailed(host: "h:443", reason: "proxy p:1: refused", retryInMs: 7),
                "warning apns: cannot connect, retrying app=shop host=h:443 reason=\"proxy p:1: refused\" retry_in_ms=7"
            ),
            (
                .disconnected(address: "1.2.3.4:443", reason: "1.2.3.4:443: closed", unanswered: 0),
                "info apns: disconnected app=shop address=1.2.3.4:443 reason=closed unanswered=0"
            ),
            (
                .peerCloses(address: "1.2.3.4:443", reason: "status 10", unprocessed: 3),
                "info apns: server is closing the connection app=shop address=1.2.3.4:443 reason=\"status 10\" resent=3"
            ),
        ] as [(TransportNote, String)])
    func `A log line about a connection names each address once`(note: TransportNote, words: String) {
        let sink = MemorySink()
        let log = EventLog(logger: Logger(sink: sink.write), names: ["shop"])
        log.write(note, of: AppIndex(0))
        // Drops the timestamp.
        #expect(sink.lines.map { String($0.drop { $0 != " " }.dropFirst()) } == [words])
    }

    @Test func `One line reports all partitions that were assigned again`() {
        let sink = MemorySink()
        EventLog(logger: Logger(sink: sink.write), names: []).writeResumed((0..<16).map { "requests/\($0)" })
        #expect(sink.lines.count == 1 && sink.lines[0].contains("count=16 partitions=requests/0,requests/1,"))
    }
}
