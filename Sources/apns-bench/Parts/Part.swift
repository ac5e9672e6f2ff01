import CLinux
import Glibc
import PushRecords

/// The stages of processing that can be measured without Kafka and sockets. The raw value is the name in
/// `apns-bench part` and in the figures of `apns-bench guard`.
enum Part: String, CaseIterable {
    case parse, envelope, ledger, machine, fanout, results, encode, frames

    func start() throws -> any PartRun {
        switch self {
        case .parse: ParsePart(isEnvelope: false)
        case .envelope: ParsePart(isEnvelope: true)
        case .ledger: LedgerPart()
        case .machine: MachinePart(tokensPerRecord: 1)
        case .fanout: MachinePart(tokensPerRecord: 100)
        case .results: ResultsPart()
        case .encode: try EncodePart()
        case .frames: try FramesPart()
        }
    }
}

/// A running benchmark of a part, which processes one batch per turn, as the worker does. Not thread-safe.
protocol PartRun: AnyObject {
    /// The number of notifications that the part has processed completely.
    var count: Int { get }
    /// The number of bytes sent, or 0 for a part that sends none.
    var sentBytes: Int64 { get }
    /// Simulates the peer and prepares the next turn. The bench does not measure this method.
    func prepare() throws
    /// Runs the worker's code. The bench measures this method.
    func turn() throws
}

extension PartRun {
    var sentBytes: Int64 { 0 }
    func prepare() throws {}
}

/// The command `apns-bench part NAME -n N`, which runs one part in this process and prints its cost. The guard runs it
/// under callgrind.
enum PartCommand {
    /// The number of unmeasured turns at the start, in which buffers grow and the first commits are acknowledged.
    private static let warmUpTurns = 24

    static func run(_ words: [String]) throws {
        guard let part = words.first.flatMap({ Part(rawValue: $0) }) else {
            let names = Part.allCases.map(\.rawValue).joined(separator: ", ")
            throw BenchFailure("apns-bench part NAME [-n N] runs one of \(names)")
        }
        let count = words.count == 3 && words[1] == "-n" ? Int(words[2]) : words.count == 1 ? 100_000 : nil
        guard let count, count > 0 else { throw BenchFailure("usage: apns-bench part NAME [-n N]") }
        let run = try part.start()
        counted.run = run
        for _ in 0..<warmUpTurns {
            try run.prepare()
            try run.turn()
        }
        let (before, sentBefore) = (run.count, run.sentBytes)
        var cpuNs: Int64 = 0
        while run.count - before < count {
            try run.prepare()
            let startNs = threadNs
            apnsBenchTurn()
            cpuNs += threadNs - startNs
            if let error = counted.error { throw error }
        }
        print(
            "{\"part\":\"\(part.rawValue)\",\"count\":\(run.count - before),\"cpu_ns\":\(cpuNs),"
                + "\"sent_bytes\":\(run.sentBytes - sentBefore)}")
    }

    /// The CPU time of the calling thread in nanoseconds.
    private static var threadNs: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// The benchmark that `apnsBenchTurn` runs, and the error of its last turn. Not thread-safe.
nonisolated(unsafe) private var counted: (run: (any PartRun)?, error: (any Error)?)

/// Runs one turn after the warm-up. callgrind counts only inside this function, and finds the function by its C name
/// (`--toggle-collect`).
@inline(never)
@c func apnsBenchTurn() {
    do { try counted.run?.turn() } catch { counted.error = error }
}

/// A record as the worker borrows it from a Kafka message. The record's bytes are never freed.
struct LentRecord {
    var key: UnsafeRawBufferPointer
    var value: UnsafeRawBufferPointer
    var headers: UnsafeBufferPointer<RecordHeader>
}

/// The input of the component benchmarks: the keys, values and headers of the requests in `Traffic`.
enum PartInputs {
    static let usualHeaders: [(StaticString, String)] = [
        ("apns-topic", Traffic.bundleID), ("apns-push-type", "alert"),
    ]
    static let manyHeaders =
        usualHeaders + [
            ("apns-priority", "10"), ("apns-expiration", "1900000000"), ("apns-collapse-id", "order-000000007"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ]

    static func tokens(_ count: Int) -> [UnsafeRawBufferPointer] {
        var source = TokenSource()
        return (0..<count).map { _ in lasting(source.next()) }
    }

    static func headers(_ pairs: [(StaticString, String)]) -> UnsafeBufferPointer<RecordHeader> {
        let headers = UnsafeMutableBufferPointer<RecordHeader>.allocate(capacity: pairs.count)
        _ = headers.initialize(from: pairs.map { RecordHeader(name: $0, value: lasting($1)) })
        return UnsafeBufferPointer(headers)
    }

    /// Returns the value of an envelope record for the given device tokens.
    static func envelope(_ tokens: [UnsafeRawBufferPointer]) -> UnsafeRawBufferPointer {
        let list = tokens.map { "\"\(String(decoding: $0, as: UTF8.self))\"" }.joined(separator: ",")
        let name = tokens.count == 1 ? "\"device_token\":\(list)" : "\"device_tokens\":[\(list)]"
        return lasting(
            "{\(name),\"headers\":{\"apns-topic\":\"\(Traffic.bundleID)\",\"apns-push-type\":\"alert\","
                + "\"apns-priority\":10},\"payload\":\(Traffic.payload(7))}")
    }

    /// Returns a copy of the text that is never freed.
    static func lasting(_ text: String) -> UnsafeRawBufferPointer { .lasting(text.utf8) }
}
