import Foundation
import PushRecords
import TestSupport
import Testing

@Suite struct SchemaTests {
    /// Headers of each kind, and a result, that another schema or the same one has to refuse.
    @Test(.needsSchemaJudge, .waiting) func `Schemas refuse records of another kind`() throws {
        var judge = SchemaJudge()
        let fixture = ContentFixture()
        var retries = RetryWriter(apps: ContentFixture.apps)
        let order = RetryOrder(
            attempt: 1, dueMs: 5, notBefore: 4_294_967_295, reason: lend("TooManyRequests"), sends: 1, inDoubt: 0,
            triedApp: lend("shop"))
        let headers = OwnedRecord(
            copying: .nothing, .nothing, headers: retries.write(fixture.content, order).headers
        ).headers
        for schema in [RecordSchema.requestHeaders, .resultHeaders, .deadLetterHeaders] {
            try judge.ask(schema, headers: headers)
        }
        // The worker writes an id in lower case, and a reader takes it in either.
        judge.ask(.result, DecoderTests.result.utf8)
        judge.ask(.result, DecoderTests.result.replacing(/"EABE[^"]*"/) { $0.output.lowercased() }.utf8)
        judge.ask(.result, #"{"outcome":"lost","attempts":-1}"#.utf8)
        #expect(try judge.verdicts() == [.refused, .refused, .refused, .refused, .allowed, .refused])
    }

    @Test func `The schema of dead letters lists every reason`() throws {
        let properties = try RecordSchema.deadLetterHeaders.object()["properties"] as? [String: [String: Any]]
        let listed = try #require(properties?["push-dlq-reason"]?["description"] as? String)
        let known = DeadLetterReason.allCases.map(\.text.description)
        #expect(listed.components(separatedBy: ", ") == known + ["output-too-large", "output-refused"])
    }
}
