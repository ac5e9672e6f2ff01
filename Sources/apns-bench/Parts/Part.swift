import CLinux
import Glibc
import PushRecords

/// The parts of a notification's way through the worker that need neither Kafka nor a socket. The raw value is the word
/// of `apns-bench part` and of the guard's figures.
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

/// A part at work, one batch a turn, as large as the worker's are. One thread.
protocol PartRun: AnyObject {
    /// Notifications that went all the way through.
    var count: Int { get }
    /// Bytes on the wire, if any.
    var sentBytes: Int64 { get }
    /// Plays the other side, and prepares the next turn. Not counted.
    func prepare() throws
    /// The worker's work. Counted.
    func turn() throws
}

extension PartRun {
    var sentBytes: Int64 { 0 }
    func prepare() throws {}
}

/// `apns-bench part NAME -n N` runs one part in this process and prints what it took. The guard runs it under
/// callgrind.
enum PartCommand {
    /// Turns before anything is counted, in which buffers grow and commits come back.
    private static let warmUpTurns = 24

    static func run(_ words: [String]) throws {
        guard let part = words.first.flatMap({ Part(rawValue: $0) }) else {
            let names = Part.allCases.map(\.rawValue).joined(separator: ", ")
            throw BenchFailure("apns-bench part NAME [-n N] runs one of \(names)")
        }
        let count = words.count == 3 && words[1] == "-n" ? Int(words[2]) : words.count == 1 ? 100_000 : nil
        guard let count, count > 0 else { throw BenchFailure("apns-bench part NAME [-n N]") }
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
        say(
            "{\"part\":\"\(part.rawValue)\",\"count\":\(run.count - before),\"cpu_ns\":\(cpuNs),"
                + "\"sent_bytes\":\(run.sentBytes - sentBefore)}\n")
    }

    /// The CPU time of this thread.
    private static var threadNs: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// The part that `apnsBenchTurn` runs, and the error of its last turn. One thread.
nonisolated(unsafe) private var counted: (run: (any PartRun)?, error: (any Error)?)

/// One turn after the warm-up. callgrind counts only in here (`--toggle-collect`), which needs a C name.
@inline(never)
@c func apnsBenchTurn() {
    do { try counted.run?.turn() } catch { counted.error = error }
}

/// A record as a Kafka message lends it; its bytes live as long as the process.
struct LentRecord {
    var key: UnsafeRawBufferPointer
    var value: UnsafeRawBufferPointer
    var headers: UnsafeBufferPointer<RecordHeader>
}

/// The input of the parts: the requests of `Traffic`, made once.
enum PartInputs {
    static let usualHeaders: [(StaticString, String)] = [
        ("apns-topic", Traffic.bundleID), ("apns-push-type", Traffic.pushType),
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

    /// An envelope for these devices.
    static func envelope(_ tokens: [UnsafeRawBufferPointer]) -> UnsafeRawBufferPointer {
        let list = tokens.map { "\"\(String(decoding: $0, as: UTF8.self))\"" }.joined(separator: ",")
        let name = tokens.count == 1 ? "\"device_token\":\(list)" : "\"device_tokens\":[\(list)]"
        return lasting(
            "{\(name),\"headers\":{\"apns-topic\":\"\(Traffic.bundleID)\",\"apns-push-type\":\"alert\","
                + "\"apns-priority\":10},\"payload\":\(Traffic.payload(7))}")
    }

    /// Bytes that live as long as the process.
    static func lasting(_ text: String) -> UnsafeRawBufferPointer {
        let bytes = UnsafeMutableRawBufferPointer.allocate(byteCount: text.utf8.count, alignment: 8)
        bytes.copyBytes(from: text.utf8)
        return UnsafeRawBufferPointer(bytes)
    }

    static var nothing: UnsafeRawBufferPointer { UnsafeRawBufferPointer(start: nil, count: 0) }
}
