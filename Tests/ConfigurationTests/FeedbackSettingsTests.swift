import Configuration
import Testing

/// `binary.feedback` of an app.
@Suite struct FeedbackSettingsTests {
    /// Returns a file with one app of the binary protocol that has the given keys in `binary`.
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

    /// The default port is Apple's, and the default interval is one hour.
    @Test(
        arguments: [
            ("", nil), ("format: simple", nil), ("feedback: {host: f}", ("f", 2_196, 3_600)),
            ("feedback: {host: f, interval: 1s}", ("f", 2_196, 1)),
            ("feedback: {host: f, interval: 0}", ("f", 2_196, 0)),
            ("feedback: {host: \"::1\", port: 65535, interval: 168h}", ("::1", 65_535, 604_800)),
            ("feedback: {host: f, interval: 90m}", ("f", 2_196, 5_400)),
        ] as [(String, (host: String, port: Int, seconds: Int)?)])
    func `The feedback settings are read, with defaults for the port and the interval`(
        keys: String, expected: (host: String, port: Int, seconds: Int)?
    ) throws {
        let feedback = try #require(try load(file(keys)).configuration.apps.first?.binary).feedback
        #expect(feedback?.host == expected?.host && feedback?.interval == expected.map { .seconds($0.seconds) })
        #expect(feedback.map { Int($0.port) } == expected?.port)
    }

    @Test(
        arguments: Wrong.table(
            #"""
            feedback: {<|port: 1>}
                8:24: apps[0].binary.feedback.host: is missing
            feedback: {host: a, prot: 1}
                8:34: apps[0].binary.feedback.prot: unknown key; did you mean port?
            feedback: {host: a, port: 0}
                8:40: apps[0].binary.feedback.port: expected a whole number from 1 to 65535, found "0"
            feedback: {host: a, interval: <999ms|169h>}
                8:44: apps[0].binary.feedback.interval: expected a duration (ms, s, m or h) from 1s to 168h, or 0, found
                "<>"
            """#))
    func `Each error in the feedback settings is reported with its line and column`(wrong: Wrong) {
        #expect(errors(file(wrong.text)) == [wrong.error])
    }
}
