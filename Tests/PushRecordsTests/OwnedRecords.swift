import PushRecords

/// Copies bytes into an allocation of exactly their size, so that a sanitizer notices every read beyond them. The test
/// may free it.
func lend(_ content: some Collection<UInt8>) -> UnsafeRawBufferPointer {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: content.count, alignment: 1)
    buffer.copyBytes(from: content)
    return UnsafeRawBufferPointer(buffer)
}

func lend(_ text: String) -> UnsafeRawBufferPointer { lend(Array(text.utf8)) }

extension OwnedRecord {
    /// A record of texts.
    init(key: String? = nil, _ value: String?, _ headers: [(String, String?)] = []) {
        func bytes(_ text: String?) -> [UInt8]? { text.map { Array($0.utf8) } }
        self.init(key: bytes(key), value: bytes(value), headers: headers.map { Header(Array($0.0.utf8), bytes($0.1)) })
    }
}

/// Parses a record with a new parser.
func parse(_ record: OwnedRecord, role: RecordRole = .request, copying: [String] = []) -> OwnedRequest {
    var parser = RequestParser(copyHeaders: copying)
    return parser.parse(record, role: role)
}

/// Parses a record of the library as the worker does.
func read(_ record: RequestRecord) -> OwnedRequest {
    let headers = record.headers.map { OwnedRecord.Header(Array($0.name.utf8), $0.value) }
    return parse(OwnedRecord(key: record.key, value: record.value, headers: headers))
}

/// A parsed request, copied from the bytes that the parser lent.
struct OwnedRequest: Equatable {
    var target = ParsedRequest.Target.none
    var form = ParsedRequest.Form.payload
    var deadLetter: DeadLetterReason?
    var isInvalid = false
    var reason = ReasonCode.none
    var detail = ""
    var subject = ""
    var token = ""
    var tokens: [String] = []
    var tokenCount = 0
    var channelID = ""
    var payload = ""
    var topic = ""
    var collapseID = ""
    var app = ""
    var environment: PushEnvironment?
    var pushType = PushType.alert
    var priority: UInt8 = 0
    var expiration: UInt32?
    var notBefore: UInt32 = 0
    var apnsID = ""
    var key: String?
    var copied: [String] = []
    var retry: OwnedRetry?
}

struct OwnedRetry: Equatable {
    var request = ""
    var attempt: Int32 = 0
    var dueMs: Int64 = 0
    var firstMs: Int64 = 0
    var reason = ""
    var sends: Int32 = 0
    var inDoubt: Int32 = 0
    var triedApp = ""
}

func text(_ bytes: UnsafeRawBufferPointer) -> String { String(decoding: bytes, as: UTF8.self) }

extension RequestParser {
    /// Parses a record and copies the request.
    mutating func parse(_ record: OwnedRecord, role: RecordRole = .request) -> OwnedRequest {
        var lent: [UnsafeRawBufferPointer] = []
        defer { for bytes in lent { bytes.deallocate() } }
        func lend(_ bytes: [UInt8]?) -> UnsafeRawBufferPointer {
            guard let bytes else { return .nothing }
            lent.append(PushRecordsTests.lend(bytes))
            return lent[lent.count - 1]
        }
        let (key, value) = (lend(record.key), lend(record.value))
        let headers = record.headers.map { RecordHeader(name: lend($0.name), value: lend($0.value)) }
        return headers.withUnsafeBufferPointer { headers in
            OwnedRequest(parse(key: key, value: value, headers: headers, role: role))
        }
    }
}

extension OwnedRequest {
    init(_ request: ParsedRequest) {
        target = request.target
        form = request.form
        deadLetter = request.deadLetter
        isInvalid = request.isInvalid
        reason = request.failureReason
        detail = request.detail.text.description
        subject = text(request.detail.subject)
        token = text(request.token)
        tokens = readTokens(request.tokenList)
        tokenCount = request.tokenCount
        channelID = text(request.channelID)
        payload = text(request.payload)
        topic = text(request.headers.topic)
        collapseID = text(request.headers.collapseID)
        app = text(request.app)
        environment = request.environment
        pushType = request.headers.pushType
        priority = request.headers.priority
        expiration = request.headers.expiration
        notBefore = request.notBefore
        apnsID = request.headers.apnsID == .none ? "" : request.headers.apnsID.description
        key = request.key.baseAddress == nil ? nil : text(request.key)
        copied = request.copiedHeaders.map { "\(text($0.name))=\(text($0.value))" }
        retry = request.retry.map { retry in
            let place = retry.request
            return OwnedRetry(
                request: "\(text(place.topic))/\(place.partition)/\(place.offset)/\(place.index)",
                attempt: retry.attempt, dueMs: retry.dueMs, firstMs: retry.firstMs, reason: text(retry.reason),
                sends: retry.sends, inDoubt: retry.inDoubt, triedApp: text(retry.triedApp))
        }
    }
}

/// Reads a list of tokens, each of the first 20 from a new copy of the list. An invalid token is marked with its
/// reason.
func readTokens(_ list: UnsafeRawBufferPointer) -> [String] {
    guard list.count > 0 else { return [] }
    var cursor = TokenCursor()
    var tokens: [String] = []
    let room = UnsafeMutableRawBufferPointer.allocate(byteCount: DeviceToken.textLimit, alignment: 1)
    defer { room.deallocate() }
    var copy = lend(list)
    defer { copy.deallocate() }
    while true {
        if tokens.count < 20 {
            copy.deallocate()
            copy = lend(list)
        }
        guard let read = cursor.next(in: copy, into: room) else { return tokens }
        let token = text(UnsafeRawBufferPointer(rebasing: room[..<read.count]))
        tokens.append(read.failure == .none ? token : "\(token)!\(read.failure)")
    }
}

let tokenA = String(repeating: "a1", count: 32)
let tokenB = String(repeating: "0b", count: 32)
let hi = #"{"aps":{"alert":"Hi"}}"#

/// A notification's content. The bytes that it lends are not freed.
struct ContentFixture {
    static let apps = [
        RecordApp(name: "other", environment: .production), RecordApp(name: "shop", environment: .development),
    ]

    let token: String
    var content: NotificationContent

    init(token: String = tokenA, isBroadcast: Bool = false) {
        self.token = isBroadcast ? "dHN0LXNyY2gtY2hubA==" : token
        let copied = UnsafeMutableBufferPointer<RecordHeader>.allocate(capacity: 1)
        copied.initialize(repeating: RecordHeader(name: lend("traceparent"), value: lend("00-ab")))
        content = NotificationContent(
            token: lend(self.token), isBroadcast: isBroadcast,
            headers: ParsedRequest.Headers(
                topic: lend("com.example.shop"), pushType: isBroadcast ? .liveactivity : .alert, priority: 10,
                expiration: 1_795_000_000,
                apnsID: NotificationUUID(high: 0x0102_0304_0506_8708, low: 0x890A_0B0C_0D0E_0F10),
                collapseID: lend("score")),
            app: 1, payload: lend(hi),
            request: RequestPlace(topic: lend("apns.requests"), partition: 3, offset: 1_234, index: 7),
            requestKey: lend(Array("user-".utf8) + [0xFF] + Array("1".utf8)), requestedAtMs: 1_780_000_000_000,
            copiedHeaders: UnsafeBufferPointer(copied))
    }
}

func owned(_ record: EncodedRecord) -> OwnedRecord {
    OwnedRecord(copying: record.key, record.value, headers: record.headers)
}

extension EncodedRecord {
    var headerTexts: [String] { headers.map { "\(text($0.name))=\(text($0.value))" } }
}
