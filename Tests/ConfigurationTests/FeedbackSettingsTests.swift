import Configuration
import Testing

/// `binary.feedback` of an app.
@Suite struct FeedbackSettingsTests {
    /// A file whose app speaks the binary protocol, with these keys of `binary`.
    private func file(_ keys: String) -> String {
        """
        kafka: {bootstrap_servers: "localhost:9092"}
        apps:
          - name: shop
            bundle_ids: [com.example.shop]
            transport: binary
            host: gateway.example
            certificate: {file: cert.pem}
            binary: {\(keys)}
        """
    }

    private func feedback(_ keys: String) throws -> BinarySettings.Feedback? {
        try #require(try load(file(keys)).configuration.apps.first?.binary).feedback
    }

    @Test func `Without the section no feedback service is read`() throws {
        #expect(try feedback("") == nil)
        #expect(try feedback("format: simple") == nil)
    }

    @Test func `The defaults are Apple's port and an hour`() throws {
        let feedback = try #require(try feedback("feedback: {host: feedback.example}"))
        #expect(feedback.host == "feedback.example" && feedback.port == 2_196 && feedback.interval == .seconds(3_600))
    }

    @Test(arguments: [("1s", 1), ("168h", 604_800), ("0", 0), ("90m", 5_400)])
    func `The interval is a duration or 0`(text: String, seconds: Int) throws {
        let feedback = try #require(try feedback("feedback: {host: \"::1\", port: 65535, interval: \(text)}"))
        #expect(feedback.host == "::1" && feedback.port == 65_535 && feedback.interval == .seconds(seconds))
    }

    @Test(
        arguments: Wrong.table(
            #"""
            feedback: {}
                8:24: apps[0].binary.feedback.host: is missing
            feedback: {port: 1}
                8:24: apps[0].binary.feedback.host: is missing
            feedback: {host: a, prot: 1}
                8:34: apps[0].binary.feedback.prot: unknown key; did you mean port?
            feedback: {host: a, port: 0}
                8:40: apps[0].binary.feedback.port: expected a whole number from 1 to 65535, found "0"
            feedback: {host: a, interval: 999ms}
                8:44: apps[0].binary.feedback.interval: expected a duration (ms, s, m or h) from 1s to 168h, or 0, found
                "999ms"
            feedback: {host: a, interval: 169h}
                8:44: apps[0].binary.feedback.interval: expected a duration (ms, s, m or h) from 1s to 168h, or 0, found
                "169h"
            """#))
    func `Every error is reported with its place`(wrong: Wrong) {
        #expect(errors(file(wrong.text)) == [wrong.error])
    }

    @Test func `An app with HTTP/2 cannot have a feedback service`() {
        let text = file("feedback: {host: a}").replacing("    transport: binary\n", with: "")
        #expect(
            errors(text) == [
                "w.yaml:7:13: apps[0].binary: is for apps with transport: binary; without it an app speaks HTTP/2"
            ])
    }
}
