import Foundation
import PushRecords
import Testing

/// Encodes a program's own types, and compares the result with that of JSONEncoder.
@Suite struct PayloadEncodingTests {
    private struct Order: Encodable {
        enum Size: String, Encodable { case small, large }
        struct Item: Encodable {
            var name: String
            var price: Decimal
            var tags: [String]?
        }

        var id: UInt64 = .max
        var lowest = Int64.min
        var isPaid = true
        var size = Size.large
        var ratio = 0.1 + 0.2
        var half: Float = 0.1
        var note: String?
        var items = [
            Item(name: "tea \"1\" \u{1F375}\n", price: Decimal(string: "1234567890.0123456789")!, tags: ["a", "b"]),
            Item(name: "milk", price: 0, tags: nil),
        ]
        var byNumber = [1: "one", 2: "two"]
        var bySize: [String: [Int?]] = ["x": [1, nil]]
        var at = Date(timeIntervalSinceReferenceDate: 700_000_000.25)
        var icon = Data([0, 1, 0xFE, 0xFF])
        var link = URL(string: "https://example.com/a?b=c#d")!
        var uuid = UUID(uuidString: "3A5B5C2E-1F0B-4C8E-9E61-0B7A2E7E8F11")!
        var small: Int8 = -128
        var numbers: [UInt8] = [0, 255]
    }

    private struct Empty: Encodable {}

    /// Requests its containers in every possible way.
    private struct Winding: Encodable {
        enum Key: String, CodingKey { case list, object, late, twice, parent }

        func encode(to encoder: any Encoder) throws {
            var first = encoder.container(keyedBy: Key.self)
            var list = first.nestedUnkeyedContainer(forKey: .list)
            var object = first.nestedContainer(keyedBy: Key.self, forKey: .object)
            try list.encode(1)
            try object.encodeNil(forKey: .late)
            var second = encoder.container(keyedBy: Key.self)
            try second.encode("late", forKey: .late)
            var inner = list.nestedContainer(keyedBy: Key.self)
            try list.encode(true)
            try inner.encode(Float(1.5), forKey: .object)
            var innermost = list.nestedUnkeyedContainer()
            try innermost.encode("x")
            try second.encode(1, forKey: .twice)
            try second.encode([2], forKey: .twice)
            try Empty().encode(to: first.superEncoder())
            try "up".encode(to: first.superEncoder(forKey: .parent))
            try 7.encode(to: list.superEncoder())
            #expect(list.count == 5)
        }
    }

    private func expectTheSame(_ value: some Encodable, at location: SourceLocation = #_sourceLocation) throws {
        var payload = BackgroundPayload()
        payload.custom["x"] = try PayloadValue(encoding: value)
        let ours = try JSONSerialization.jsonObject(with: Data(payload.json())) as? [String: Any]
        let data = try JSONEncoder().encode(["x": value])
        let theirs = try JSONSerialization.jsonObject(with: data) as? [String: Any]
        #expect(
            ours?["x"] as? NSObject == theirs?["x"] as? NSObject, "\(String(decoding: data, as: UTF8.self))",
            sourceLocation: location)
    }

    @Test func `A value is encoded as JSONEncoder encodes it`() throws {
        try expectTheSame(Order())
        try expectTheSame(Empty())
        try expectTheSame(Winding())
        try expectTheSame([[], [Order.Size.small]])
        try expectTheSame("text")
        try expectTheSame(nil as Int?)
        try expectTheSame([true, nil, false])
        try expectTheSame(Decimal(string: "-0.00000000000000000001"))
        try expectTheSame(URL(string: "relative/path"))
        try expectTheSame([Data(), Data([1]), Data([1, 2]), Data([1, 2, 3])])
        try expectTheSame([Duration.seconds(3)])
        try expectTheSame(UInt64(Int64.max))
    }

    /// The order in which members are declared or hashed does not matter.
    @Test func `The members of an encoded value are ordered by name`() throws {
        struct Small: Encodable {
            var z = 1
            var a = [0.1 as Float, 2]
            var m = ["k2": Data([0xFF]), "k1": Data()]
        }
        for _ in 0..<20 {
            let payload = BackgroundPayload(custom: try .init(encoding: Small()))
            #expect(
                text(lend(try payload.json()))
                    == #"{"aps":{"content-available":1},"a":[0.1,2.0],"m":{"k1":"","k2":"/w=="},"z":1}"#)
        }
        #expect(try PayloadValue(encoding: UInt64.max) == .encoded(Array("18446744073709551615".utf8)))
        #expect(try PayloadValue(encoding: Int64.min) == .integer(.min))
    }

    private struct Torn: Encodable {
        func encode(to encoder: any Encoder) throws {
            var list = encoder.unkeyedContainer()
            try list.encode(1)
            var object = encoder.container(keyedBy: Winding.Key.self)
            try object.encode(1, forKey: .late)
        }
    }

    private struct Refusing: Encodable {
        struct Reason: Error, CustomStringConvertible { var description: String { "not today" } }
        func encode(to encoder: any Encoder) throws { throw Reason() }
    }

    private final class Chain: Encodable {
        var next: Chain?
        init(_ next: Chain?) { self.next = next }
    }

    private static func chain(_ length: Int) -> Chain {
        var chain = Chain(nil)
        for _ in 1..<length { chain = Chain(chain) }
        return chain
    }

    @Test func `A value that JSON cannot represent is refused with its path`() throws {
        struct Deep: Encodable { var list = [["x": Double.nan]] }
        func detail(_ value: some Encodable) -> String? {
            let error = #expect(throws: RequestError.self) { try PayloadValue(encoding: value) }
            #expect(error?.reason == .badRequestPayload)
            return error?.detail
        }
        #expect(detail(Deep()) == "list[0].x: JSON cannot represent nan")
        #expect(detail(Float.infinity) == "the value: JSON cannot represent inf")
        #expect(detail(["a": Torn()]) == "a must be encoded as one kind of value: object, array or single value")
        #expect(detail(Refusing()) == "Refusing: not today")
        #expect(detail(Self.chain(100)) == "next.next.next… is nested deeper than 64 levels")
        let base = URL(string: "https://example.com")
        #expect(
            detail([URL(string: "a", relativeTo: base)])
                == "[0] is a relative URL; encode its absoluteString instead")
        let error = #expect(throws: RequestError.self) { try [String: PayloadValue](encoding: [1]) }
        #expect(error?.detail == "Array<Int> is not encoded as an object")
        _ = try PayloadValue(encoding: Self.chain(60))
    }
}
