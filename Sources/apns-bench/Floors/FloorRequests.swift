import CNghttp2
import Glibc

/// The requests of the bare send floor: the worker's header fields with random tokens and an apns-id that differs from
/// request to request, in memory made once.
final class FloorRequests {
    let count: Int
    private(set) var submitted = 0
    private(set) var answered = 0
    var refused = 0

    private static let fieldCount = 8
    private static let prefix: StaticString = "/3/device/"
    private static let pathSize = FloorRequests.prefix.utf8CodeUnitCount + TokenSource.size
    private let fields = UnsafeMutablePointer<nghttp2_nv>.allocate(capacity: FloorRequests.fieldCount)
    /// One path after the other.
    private let paths: UnsafeMutablePointer<UInt8>
    private let devices: Int
    private let id: UnsafeMutablePointer<UInt8>
    private var payload = PayloadText()

    init(count: Int, devices: Int) {
        self.count = count
        self.devices = devices
        paths = .allocate(capacity: devices * Self.pathSize)
        var source = TokenSource()
        for index in 0..<devices {
            let path = paths + index * Self.pathSize
            path.update(from: Self.prefix.utf8Start, count: Self.prefix.utf8CodeUnitCount)
            _ = source.next(into: path + Self.prefix.utf8CodeUnitCount)
        }
        id = Self.copy("00000000-0000-8000-8000-000000000000")
        let noIndex = NGHTTP2_NV_FLAG_NO_INDEX.rawValue
        let all: [(name: String, value: String, flags: UInt32)] = [
            (":method", "POST", 0), (":scheme", "https", 0), (":authority", "localhost", 0), (":path", "", noIndex),
            ("authorization", Traffic.authorization, 0), ("apns-topic", Traffic.bundleID, 0),
            ("apns-push-type", Traffic.pushType, 0), ("apns-id", "", noIndex),
        ]
        for (index, field) in all.enumerated() {
            let flags =
                field.flags | NGHTTP2_NV_FLAG_NO_COPY_NAME.rawValue | NGHTTP2_NV_FLAG_NO_COPY_VALUE.rawValue
            fields[index] = nghttp2_nv(
                name: Self.copy(field.name), value: Self.copy(field.value), namelen: field.name.utf8.count,
                valuelen: field.value.utf8.count, flags: UInt8(flags))
        }
        fields[7].value = id
        fields[7].valuelen = 36
        fields[3].valuelen = Self.pathSize
    }

    /// As long as the process.
    private static func copy(_ text: String) -> UnsafeMutablePointer<UInt8> {
        UnsafeMutableRawPointer(strdup(text)!).assumingMemoryBound(to: UInt8.self)
    }

    var isExhausted: Bool { submitted == count }

    /// Gives the next request to a session, which serializes it before the next one is given.
    func submit(to session: OpaquePointer) -> Int32 {
        fields[3].value = paths + submitted % devices * Self.pathSize
        var rest = submitted
        for place in stride(from: 35, through: 24, by: -1) {
            let digit = UInt8(rest & 15)
            id[place] = digit < 10 ? 48 + digit : 87 + digit
            rest >>= 4
        }
        payload.set(submitted)
        var body = nghttp2_data_provider(
            source: nghttp2_data_source(ptr: Unmanaged.passUnretained(self).toOpaque()), read_callback: Self.readBody)
        submitted += 1
        return nghttp2_submit_request(session, nil, fields, Self.fieldCount, &body, nil)
    }

    /// Called by nghttp2 from inside `nghttp2_session_mem_send`; a payload fits into any frame.
    private static let readBody: nghttp2_data_source_read_callback = { _, _, into, length, flags, source, _ in
        let requests = Unmanaged<FloorRequests>.fromOpaque(source!.pointee.ptr).takeUnretainedValue()
        let count = requests.payload.bytes.count
        guard count <= length else { return Int(NGHTTP2_ERR_CALLBACK_FAILURE.rawValue) }
        requests.payload.bytes.withUnsafeBytes { _ = memcpy(into!, $0.baseAddress!, count) }
        flags!.pointee |= NGHTTP2_DATA_FLAG_EOF.rawValue
        return count
    }

    /// A stream ended.
    func noteEnd(wasFine: Bool) {
        answered += 1
        if !wasFine { refused += 1 }
    }
}
