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
        var parser = RequestParser()
        let found = parser.parse(
            OwnedRecord(#"{"device_token":"00","payload":{},"headers":{\#(members.joined(separator: ","))}}"#))
        #expect(!found.isInvalid && found.collapseID == "a")
    }
}
