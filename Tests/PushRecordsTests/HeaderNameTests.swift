import Testing

@testable import PushRecords

@Suite struct HeaderNameTests {
    @Test func `Every header is found only by its exact name`() {
        func find(_ name: [UInt8]) -> HeaderName? {
            let lent = lend(name)
            defer { lent.deallocate() }
            return HeaderName(lent)
        }
        let names = Dictionary(uniqueKeysWithValues: HeaderName.allCases.map { (Array($0.text.description.utf8), $0) })
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
        #expect(find([]) == nil && HeaderName(.nothing) == nil)
    }

    @Test func `Schemas have all of Apple's headers`() throws {
        let apple = HeaderName.allCases.map(\.text.description).filter { $0.hasPrefix("apns-") }
        for schema in [RecordSchema.requestHeaders, .retryHeaders, .envelope] {
            var object = try schema.object()
            if schema == .envelope {
                object = try #require((object["properties"] as? [String: [String: Any]])?["headers"])
            }
            let properties = try #require(object["properties"] as? [String: [String: Any]])
            let members = HeaderName.allCases.filter(\.isOfEnvelope).map(\.text.description)
            #expect(
                properties.keys.filter { $0.hasPrefix("apns-") }.sorted()
                    == (schema == .envelope ? members : apple).sorted())
            let collapseID = try #require(properties["apns-collapse-id"])
            #expect(collapseID["minLength"] as? Int == 1 && collapseID["maxLength"] as? Int == RecordLimits.collapseID)
        }
    }

    @Test func `An envelope can have all headers at once`() {
        let values = [
            "apns-topic": "com.example.shop", "apns-push-type": "alert", "apns-priority": "5", "apns-expiration": "0",
            "apns-id": "123e4567-e89b-12d3-a456-4266554400a0",
        ]
        let members = HeaderName.allCases.filter(\.isOfEnvelope).map { header in
            #""\#(header.text)":"\#(values[header.text.description] ?? "a")""#
        }
        let found = parse(
            OwnedRecord(#"{"device_token":"00","payload":{},"headers":{\#(members.joined(separator: ","))}}"#))
        #expect(!found.isInvalid && found.collapseID == "a")
    }
}

/// The values that a header of a request to Apple may have.
@Suite struct HeaderCheckTests {
    /// The check reads eight bytes at a time and then the rest, so the test tries every position.
    @Test func `A header's value must be printable ASCII without spaces at its ends`() {
        for length in 1...20 {
            for place in 0..<length {
                for byte in UInt8.min ... .max {
                    for filler in [UInt8(ascii: "a"), 0x21, 0x7E] {
                        var bytes = Array(repeating: filler, count: length)
                        bytes[place] = byte
                        let isClean = bytes.withUnsafeBytes { HeaderCheck.isClean($0, limit: 20) }
                        let isEdge = place == 0 || place == length - 1
                        let expected = byte > 0x20 && byte < 0x7F || byte == 0x20 && !isEdge
                        if isClean != expected {
                            Issue.record("byte \(byte) at \(place) of \(length) among \(filler): \(isClean)")
                        }
                    }
                }
            }
        }
    }

    @Test func `A header's value must have at least one byte and at most the limit`() {
        for count in 0...260 {
            let isClean = Array(repeating: UInt8(ascii: "a"), count: count).withUnsafeBytes {
                HeaderCheck.isClean($0, limit: 255)
            }
            #expect(isClean == (count >= 1 && count <= 255))
        }
    }

    @Test(
        arguments: [
            ("0", 0), ("00000000000000000001", nil), ("999999999999999999", 999_999_999_999_999_999),
            ("9223372036854775807", .max), ("9223372036854775808", nil), ("9999999999999999999", nil), ("", nil),
            ("-1", nil), ("1a", nil), ("+1", nil), ("18446744073709551616", nil),
        ] as [(String, Int64?)])
    func `A header's number consists of digits only`(text: String, expected: Int64?) {
        #expect(Array(text.utf8).withUnsafeBytes { HeaderCheck.unsigned($0) } == expected)
    }
}
