import Foundation
import Testing

@testable import PushRecords

/// The table of Apple's optional texts, and that everything in this module goes over it.
@Suite struct TextHeaderTests {
    @Test(arguments: TextHeader.allCases)
    func `A row fits itself`(header: TextHeader) {
        let row = header.row
        let name = row.name.description
        #expect(name.hasPrefix("apns-") && name == name.lowercased())
        #expect(row.limit > 0 && row.limit <= 1_024 && row.reason.text != nil)
        #expect(row.complaint.description == "\(name) must be printable ASCII of 1 to \(row.limit) bytes")
        #expect(!row.placeholder.description.isEmpty)
    }

    @Test func `The set goes over the table`() {
        #expect(Array(TextHeaders.all) == TextHeader.allCases)
        #expect(Array(TextHeaders()) == [])
        var some = TextHeaders()
        for header in TextHeader.allCases {
            #expect(some.insert(header) && !some.insert(header))
            #expect(Array(some) == TextHeader.allCases.filter { $0.rawValue <= header.rawValue })
        }
        for header in TextHeader.allCases { some.remove(header) }
        #expect(Array(some) == [])
    }

    /// Each has a place of its own.
    @Test func `Values`() {
        var texts = HeaderTexts()
        for header in TextHeader.allCases { texts[header] = lend("\(header)") }
        for header in TextHeader.allCases { #expect(text(texts[header]) == "\(header)") }
        #expect(Array(texts.present) == TextHeader.allCases)
        for header in TextHeader.allCases {
            texts[header] = lend("")
            #expect(!texts.present.contains(header))
        }
        #expect(Array(texts.present) == [])
    }

    /// Every known header is found by its name, and by no other.
    @Test func `Names`() {
        func find(_ name: [UInt8]) -> KnownHeader? {
            let lent = lend(name)
            defer { lent.deallocate() }
            return KnownHeader(lent)
        }
        #expect(HeaderName.allCases.count == Int(HeaderName.count))
        #expect(KnownHeader.all.map { Int($0.index) } == Array(0..<KnownHeader.all.count))
        let names = Dictionary(
            uniqueKeysWithValues: KnownHeader.all.map { (Array($0.text.description.utf8), $0) })
        for (name, header) in names {
            #expect(find(name) == header)
            var others: [[UInt8]] = [name + [0x73], [0x61] + name, Array(name.dropLast()), Array(name.dropFirst())]
            for place in name.indices {
                for bit in 0..<8 {
                    var other = name
                    other[place] ^= 1 << UInt8(bit)
                    others.append(other)
                }
                var shorter = name
                shorter.remove(at: place)
                others.append(shorter)
            }
            for other in others { #expect(find(other) == names[other], "\(String(decoding: other, as: UTF8.self))") }
        }
        #expect(find([]) == nil && KnownHeader(.nothing) == nil)
    }

    /// Every header of Apple's is in every schema that has such headers; texts with their limits.
    @Test func `Schemas`() throws {
        let apple = KnownHeader.all.map(\.text.description).filter { $0.hasPrefix("apns-") }
        for (schema, path) in [(RecordSchema.requestHeaders, []), (.retryHeaders, []), (.envelope, ["headers"])]
            as [(RecordSchema, [String])]
        {
            var object = try schema.object()
            for name in path {
                object = try #require((object["properties"] as? [String: [String: Any]])?[name])
            }
            let properties = try #require(object["properties"] as? [String: [String: Any]])
            let members = KnownHeader.all.filter(\.isOfEnvelope).map(\.text.description)
            #expect(
                properties.keys.filter { $0.hasPrefix("apns-") }.sorted()
                    == (schema == .envelope ? members : apple).sorted())
            for row in TextHeader.allCases.map(\.row) {
                let property = try #require(properties[row.name.description])
                #expect(property["minLength"] as? Int == 1 && property["maxLength"] as? Int == row.limit)
            }
        }
    }

    /// Each is where producers look for it.
    @Test(arguments: ["Sources/Worker/Worker.docc/Producing.md", "Sources/PushRecords/PushRecords.docc/TheRecords.md"])
    func `Documents`(path: String) throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let document = try String(contentsOf: root.appending(path: path), encoding: .utf8)
        for header in KnownHeader.all where header.isOfEnvelope {
            #expect(document.contains("`\(header.text)`"))
        }
    }

    /// Programs in Swift have a property of each, which both forms write.
    @Test func `Building`() throws {
        let token = try DeviceToken(hex: tokenA)
        var notification = PushNotification(json: hi)
        for (header, text) in ContentFixture.texts { notification[header] = text }
        for record in [try notification.payloadRecord(to: token), try notification.envelopeRecord(to: [token])] {
            var parser = RequestParser()
            var test = TestRecord(nil)
            test.key = record.key
            test.value = record.value
            test.headers = record.headers.map { ($0.name, $0.value) }
            let found = parser.parse(test)
            #expect(found.texts == ContentFixture.texts && !found.isInvalid)
        }
        for header in TextHeader.allCases {
            var wrong = notification
            wrong[header] = String(repeating: "x", count: header.row.limit + 1)
            let error = #expect(throws: RequestError.self) { try wrong.payloadRecord(to: token) }
            #expect(error?.reason == header.row.reason.reason)
        }
    }

    /// An envelope says of each what a record's header says.
    @Test(arguments: TextHeader.allCases)
    func `Envelopes`(header: TextHeader) {
        let name = header.row.name.description
        var parser = RequestParser()
        func parse(_ value: String) -> OwnedRequest {
            parser.parse(TestRecord(#"{"device_token":"00","payload":{},"headers":{"\#(name)":\#(value)}}"#))
        }
        #expect(parse(#""a\u0062""#).texts == [header: "ab"])
        #expect(parse("null").texts == [:] && !parse("null").isInvalid)
        for wrong in ["1", "true", "[]", "{}", #""""#, #""é""#, #"" ""#] {
            let found = parse(wrong)
            #expect(found.isInvalid && found.reason == header.row.reason, "\(wrong)")
        }
        let twice = parse(#""a","\#(name)":"a""#)
        #expect(twice.isInvalid && twice.reason == .duplicateHeaders)
    }

    /// All that an envelope may have at once finds room.
    @Test func `An envelope with every header`() {
        let values = [
            "apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": "5", "apns-expiration": "0",
            "apns-id": "123e4567-e89b-12d3-a456-4266554400a0",
        ]
        let members = KnownHeader.all.filter(\.isOfEnvelope).map { header in
            #""\#(header.text)":"\#(values[header.text.description] ?? "a")""#
        }
        var parser = RequestParser()
        let found = parser.parse(
            TestRecord(#"{"device_token":"00","payload":{},"headers":{\#(members.joined(separator: ","))}}"#))
        #expect(!found.isInvalid && found.texts.count == TextHeader.allCases.count)
    }
}
