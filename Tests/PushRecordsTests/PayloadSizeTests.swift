import PushRecords
import Testing

private let token = try! DeviceToken(hex: tokenA)
private let channel = "dHN0LXNyY2gtY2hubA=="

/// The size limits of payloads to the byte, and shortening to these limits.
@Suite struct PayloadSizeTests {
    /// Characters and their sizes in JSON: one to four bytes of UTF-8, escapes of two and six bytes, and a family emoji
    /// of several code points.
    private static let characters: [(Character, Int)] = [
        ("a", 1), ("é", 2), ("€", 3), ("🚚", 4), ("\"", 2), ("\\", 2), ("\n", 2), ("\u{1}", 6), ("/", 1), ("\u{7F}", 1),
        ("👩‍👩‍👧‍👦", 25),
    ]

    @Test(arguments: characters)
    func `A payload is accepted up to the exact size limit`(character: Character, bytes: Int) throws {
        var alert = AlertPayload(body: "")
        var call = VoIPPayload(["x": ""])
        var update = LiveActivityUpdate(contentState: ["x": ""], timestamp: 1)
        let empty = (alert: try alert.size(), call: try call.size(), update: try update.size())
        /// A text that fills an empty payload to exactly `size` bytes, first with `character`, then with `a`.
        func fill(_ size: Int, _ empty: Int) -> String {
            let (count, rest) = (size - empty).quotientAndRemainder(dividingBy: bytes)
            return String(repeating: "\(character)", count: count) + String(repeating: "a", count: rest)
        }

        for (size, fits) in [(4_095, true), (4_096, true), (4_097, false)] {
            alert.body = fill(size, empty.alert)
            update.contentState = ["x": .string(fill(size, empty.update))]
            #expect(try alert.size() == size && update.size() == size)
            #expect((size <= alert.sizeLimit) == fits && (size <= update.sizeLimit) == fits)
            expect(fits, 4_096) { () throws(RequestError) in try PushNotification(alert).payloadRecord(to: token) }
            expect(fits, 4_096) { () throws(RequestError) in try PushNotification(alert).envelopeRecord(to: [token]) }
            expect(fits, 4_096) { () throws(RequestError) in try PushNotification(update).payloadRecord(to: token) }
        }
        for (size, fits) in [(5_119, true), (5_120, true), (5_121, false)] {
            call.members = ["x": .string(fill(size, empty.call))]
            update.contentState = ["x": .string(fill(size, empty.update))]
            #expect(try call.size() == size && update.size() == size)
            #expect((size <= call.sizeLimit) == fits && (size <= update.broadcastSizeLimit) == fits)
            expect(fits, 5_120) { () throws(RequestError) in try PushNotification(call).payloadRecord(to: token) }
            expect(fits, 5_120) { () throws(RequestError) in try PushNotification(call).envelopeRecord(to: [token]) }
            for build in [PushNotification.payloadRecord(toChannel:), PushNotification.envelopeRecord(toChannel:)]
                as [(PushNotification<LiveActivityUpdate>) -> (String) throws(RequestError) -> RequestRecord]
            {
                let notification = PushNotification(update, topic: .bundleID("com.example.shop"))
                expect(fits, 5_120) { () throws(RequestError) in try build(notification)(channel) }
            }
        }
    }

    private func expect(
        _ fits: Bool, _ limit: Int, _ build: () throws(RequestError) -> RequestRecord,
        at location: SourceLocation = #_sourceLocation
    ) {
        do throws(RequestError) {
            let record = try build()
            #expect(fits && !read(record).isInvalid, sourceLocation: location)
        } catch {
            #expect(!fits && error.reason == .payloadTooLarge, sourceLocation: location)
            #expect(error.detail == "the payload has more than \(limit) bytes", sourceLocation: location)
        }
    }

    @Test(arguments: characters)
    func `trimBody removes no character too many`(character: Character, bytes: Int) throws {
        for limit in [60, 61, 62, 63, 64, 65, 66, 4_096] {
            var payload = AlertPayload(title: "T", body: "ab" + String(repeating: "\(character)", count: 5_000))
            payload.badge = 1
            let before = try payload.size()
            let removed = try payload.trimBody(toFit: limit)
            let size = try payload.size()
            #expect(size <= limit && size > limit - bytes && removed == before - size && removed > 0)
            #expect(payload.body?.hasPrefix("ab") == true)
            #expect(payload.body?.dropFirst(2).allSatisfy { $0 == character } == true)
            #expect(try payload.trimBody(toFit: limit) == 0)
        }
    }

    @Test func `trimBody can cut at word ends`() throws {
        let frame = try AlertPayload(body: "").size()
        func trimmed(_ text: String, to bytes: Int, atWordEnd: Bool = true) throws -> String? {
            var payload = AlertPayload(body: text)
            try payload.trimBody(toFit: frame + bytes, atWordEnd: atWordEnd)
            #expect(try payload.size() <= frame + bytes)
            return payload.body
        }
        #expect(try trimmed("one two three", to: 13) == "one two three")
        #expect(try trimmed("one two three", to: 12) == "one two")
        #expect(try trimmed("one two three", to: 8) == "one two")
        #expect(try trimmed("one two three", to: 7) == "one two")
        #expect(try trimmed("one two three", to: 6) == "one")
        #expect(try trimmed("one two three", to: 6, atWordEnd: false) == "one tw")
        // The first word does not fit, so it is cut.
        #expect(try trimmed("one two three", to: 2) == "on")
        #expect(try trimmed("one two three", to: 0) == "")
        #expect(try trimmed("🚚 🚚🚚", to: 8) == "🚚")
    }

    /// The payload does not change.
    @Test func `trimBody refuses a payload that is too large without its body`() throws {
        var payload = AlertPayload(title: String(repeating: "t", count: 50), body: "body")
        let before = payload
        let size = try payload.size()
        let error = #expect(throws: RequestError.self) { try payload.trimBody(toFit: size - 5) }
        #expect(error?.reason == .payloadTooLarge && error?.detail.contains("is 5 bytes too large") == true)
        #expect(payload == before)
        #expect(try payload.trimBody(toFit: size - 4) == 4 && payload.body == "")
        payload.body = nil
        #expect(throws: RequestError.self) { try payload.trimBody(toFit: 10) }
    }
}
