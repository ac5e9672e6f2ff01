import APNs
import Delivery
import HTTP2
import PushRecords

/// `encode`: requests through the HTTP/2 client of one connection and its resend window into memory, and the answers
/// back, as `Connection` does it (`fill`, `flush`, `channelReceived`). The server that answers 200 is not counted.
final class EncodePart: PartRun {
    private(set) var count = 0
    private let client: ClientSession
    private let server: ServerSession
    private var headers: RequestHeaders
    private var window = Window(timeoutNs: 30_000_000_000)
    private var answer = HeaderList()
    private var requests: [OutgoingRequest] = []
    private var made: Int64 = 0
    private let topicHash: UInt64

    private var toServer = Pipe(capacity: 1 << 20)
    private var toClient = Pipe(capacity: 1 << 20)
    private var nowNs: Int64 = 1_000_000_000
    private var completions: [Completion] = []

    /// On one connection at once.
    private static let batch = 256
    private static let eagerBytes = 32 << 10
    private static let recordBytes = 16 << 10

    init() throws {
        var options = ClientOptions()
        options.wantedHeaders = RequestHeaders.wantedHeaders
        client = try ClientSession(options: options)
        // Its window never holds a batch back, so that all turns are alike.
        var serverOptions = ServerOptions()
        serverOptions.connectionWindow = 1 << 20
        server = try ServerSession(options: serverOptions)
        topicHash = DerivedID.topicHash(PartInputs.lasting("apns.requests"))
        headers = RequestHeaders(authority: "api.push.apple.com", hasToken: true)
        headers.setAuthorization(PartInputs.lasting(Traffic.authorization))
        answer.append(":status", "200")
        answer.append(
            "apns-id", PartInputs.lasting("0a1b2c3d-4e5f-8a6b-9c7d-8e9fa0b1c2d3"), .nameOnly(slot: 0))
        let topic = PartInputs.lasting(Traffic.bundleID)
        let payload = PartInputs.lasting(Traffic.payload(7))
        requests = PartInputs.tokens(Self.batch).enumerated().map { index, token in
            OutgoingRequest(
                id: NotificationID(slot: UInt32(index), generation: 0), token: token, payload: payload,
                headers: NotificationHeaders(topic: topic, priority: 10))
        }
    }

    func prepare() throws {
        nowNs += 10_000_000
        try toServer.take { try server.receive($0) }
        while let event = server.nextEvent() {
            guard case .request(let stream) = event else { continue }
            try server.respond(stream: stream, answer, body: PartInputs.nothing)
        }
        let output = server.output
        try toClient.add(output)
        server.consumeOutput(output.count)
        for index in requests.indices {
            requests[index].id.generation &+= 1
            requests[index].headers.apnsID = DerivedID.make(topicHash: topicHash, partition: 3, offset: made, index: 0)
            made += 1
        }
    }

    func turn() throws {
        completions.removeAll(keepingCapacity: true)
        window.kernelTook(toServer.total, nowNs: nowNs)
        try toClient.take { try client.receive($0) }
        try drainEvents()
        count += completions.count
        try fill(&window, headers: &headers)
        try pass(wholeRecords: false)
        window.kernelTook(toServer.total, nowNs: nowNs)
        _ = window.nextDeadlineNs
    }

    private func drainEvents() throws {
        while let event = client.nextEvent() {
            switch event {
            case .response(let ticket, let status):
                guard status == 200, let closed = window.responded(ticket) else {
                    throw BenchFailure("an answer that nobody waits for")
                }
                var completion = Completion(id: closed.id, kind: .answered, status: status, sentAtMs: closed.sentAtMs)
                let sentID = client.responseHeader(0)
                if !sentID.isEmpty { completion.apnsID = NotificationUUID(text: sentID) ?? .none }
                if !client.responseHeader(1).isEmpty { completion.uniqueIDText = 0 }
                completions.append(completion)
            case .bodySent(let ticket, let end): window.bodySent(ticket, end: end)
            case .settings, .pong: break
            case .ended, .goAway: throw BenchFailure("the server of encode ended a stream")
            }
        }
    }

    /// One access to the window for the whole batch, as in `Connection`.
    private func fill(_ window: inout Window, headers: inout RequestHeaders) throws {
        var next = 0
        while next < requests.count, window.count < Self.batch, client.freeStreams > 0,
            client.nextStreamID < 2_000_000_000
        {
            guard client.hasWindow(for: requests[next].payload.count) || window.isEmpty else { return }
            headers.write(requests[next])
            let ticket = window.open(requests[next].id, token: 1, nowNs: nowNs, nowMs: nowNs / 1_000_000)
            switch try client.submit(
                headers.list, body: requests[next].payload, user: ticket,
                keep: RequestHeaders.keep(for: requests[next]))
            {
            case .written(let stream, let end): window.handed(ticket, stream: stream, end: end)
            case .waiting(let stream): window.handed(ticket, stream: stream, end: nil)
            case .refused:
                window.withdraw(ticket)
                return
            }
            next += 1
            if client.output.count >= Self.eagerBytes { try pass(wholeRecords: true) }
        }
    }

    private func pass(wholeRecords: Bool) throws {
        let output = client.output
        let offered = wholeRecords ? output.count & ~(Self.recordBytes - 1) : output.count
        guard offered > 0 else { return }
        try toServer.add(UnsafeRawBufferPointer(rebasing: output[..<offered]))
        try client.consumeOutput(offered)
    }
}

/// Bytes on their way from one side to the other, in memory that is kept.
private struct Pipe: ~Copyable {
    private let bytes: UnsafeMutableRawBufferPointer
    private var count = 0
    /// All that ever went in.
    private(set) var total: Int64 = 0

    init(capacity: Int) { bytes = .allocate(byteCount: capacity, alignment: 16) }

    deinit { bytes.deallocate() }

    mutating func add(_ more: UnsafeRawBufferPointer) throws {
        guard count + more.count <= bytes.count else { throw BenchFailure("more bytes than a turn may make") }
        guard !more.isEmpty else { return }
        UnsafeMutableRawBufferPointer(rebasing: bytes[count...]).copyMemory(from: more)
        count += more.count
        total += Int64(more.count)
    }

    /// Lends all of it, which is then gone.
    mutating func take(_ body: (UnsafeRawBufferPointer) throws -> Void) rethrows {
        guard count > 0 else { return }
        defer { count = 0 }
        try body(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }
}
