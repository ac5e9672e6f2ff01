import Testing

@testable import Delivery
@testable import PushRecords

struct HeaderWayTests {
    private static let headers = [
        "apns-topic": "com.example.shop.voip", "apns-push-type": "voip", "apns-priority": "5",
        "apns-expiration": "1900000000", "apns-collapse-id": String(repeating: "x", count: RecordLimits.collapseID),
        "apns-id": "123e4567-e89b-12d3-a456-4266554400a0",
    ]

    @Test func `A notification reaches the transport and its retry record as the producer wrote it`() throws {
        let known = HeaderName.allCases.map(\.text.description).filter { $0.hasPrefix("apns-") }
        #expect(Set(Self.headers.keys) == Set(known).subtracting(["apns-channel-id"]))
        let (rig, partition) = Rig.ready()
        rig.receive(partition, 0, "a", headers: Self.headers, payload: #"{"aps":{"alert":"Привет"}}"#)
        rig.send()
        let request = try #require(rig.sent.first)
        #expect(Rig.text(request.token) == Rig.token("a"))
        #expect(Rig.text(request.payload) == #"{"aps":{"alert":"Привет"}}"#)
        #expect(Self.lines(request.headers) == Self.headers)
        rig.answer("a", 500, .internalServerError)
        let retry = rig.machine.nextProduction(for: .retry(tier: 1))
        let again = rig.machine.withRetry(try #require(retry)) { content, order in
            var writer = RetryWriter(apps: [RecordApp(name: "shop", environment: .production)])
            let record = writer.write(content, order)
            var parser = RequestParser()
            return Self.lines(
                parser.parse(key: record.key, value: record.value, headers: record.headers, role: .retry).headers)
        }
        #expect(again == Self.headers)
    }

    /// Returns the headers as they are in a record.
    private static func lines(_ headers: ParsedRequest.Headers) -> [String: String] {
        [
            "apns-topic": Rig.text(headers.topic), "apns-push-type": headers.pushType.text.description,
            "apns-priority": "\(headers.priority)", "apns-expiration": headers.expiration.map { "\($0)" } ?? "",
            "apns-collapse-id": Rig.text(headers.collapseID), "apns-id": headers.apnsID.description,
        ]
    }
}
