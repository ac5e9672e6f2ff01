@testable import Configuration
import TestSupport
import Testing

@Suite struct SubstitutionTests {
    private static let environment = [
        "A": "x", "EMPTY": "", "TRICK": "${A}$$", "PORT": "2197", "YES": "true", "_B1": "y",
    ]

    @Test(arguments: [
        ("plain", "plain"), ("${A}", "x"), ("-${A}-${_B1}-", "-x-y-"), ("$${A}", "${A}"), ("a$b$", "a$b$"),
        ("$$$$", "$$"),
        ("${NOT:-d}", "d"), ("${EMPTY:-d}", "d"), ("${A:-d}", "x"), ("z${EMPTY}", "z"), ("${NOT:-}z", "z"),
        ("${TRICK}", "${A}$$"), ("${NOT:-a:-b}", "a:-b"), ("${NOT:-$A}", "$A"), ("é${A}é", "éxé"),
    ])
    func `Variables are replaced in scalars`(text: String, expected: String) throws {
        let yaml = minimal.replacing("\"localhost:9092\"", with: "localhost, librdkafka: {p: '\(text)'}")
        #expect(try load(yaml, Self.environment).configuration.kafka.properties.map(\.value) == [expected])
    }

    @Test func `A variable can supply a value of any type`() throws {
        let text =
            minimal.replacing("- name: shop", with: "- name: shop\n    port: \"${PORT}\"")
            + "unregistered: {include_bad_tokens: \"${YES}\"}\ndelivery: {max_age: \"${AGE:-30m}\"}\n"
        let configuration = try load(text, Self.environment).configuration
        #expect(configuration.apps[0].port == 2_197)
        #expect(configuration.unregistered.includeBadTokens)
        #expect(configuration.delivery.maxAge == .seconds(1_800))
    }

    @Test func `Variables in keys are not replaced`() {
        #expect(
            errors(minimal + "${A}: 1\n", Self.environment).map { $0.prefix(27) } == ["w.yaml:6:1: ${A}: unknown k"])
    }

    @Test(arguments: [
        ("${}", "${} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign"),
        ("${1A}", "${1A} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign"),
        ("${A B}", "${A B} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign"),
        ("${A:b}", "${A:b} is neither ${NAME} nor ${NAME:-default}; write $$ for a dollar sign"),
        ("${A", "${ without a closing }; write $$ for a dollar sign"),
        ("${NOT}", "the environment variable NOT is not set; set it, or write ${NOT:-default}"),
    ])
    func `An invalid variable is reported with its place`(text: String, expected: String) {
        #expect(
            errors(minimal + "results: {topic: '\(text)'}\n", Self.environment) == [
                "w.yaml:6:18: results.topic: \(expected)"
            ])
    }

    @Test func `A librdkafka property may come from a file`() throws {
        let folder = try TemporaryFolder()
        try folder.write("s3cret \r\n\n", "pass")
        let yaml = minimal.replacing("\"localhost:9092\"", with: "localhost, librdkafka: {sasl.password_file: pass}")
        let file = try folder.write(yaml, "w.yaml")
        let loaded = try WorkerConfiguration.load(file: file)
        #expect(loaded.configuration.kafka.properties.map(\.name) == ["sasl.password"])
        #expect(loaded.configuration.kafka.properties.map(\.value) == ["s3cret "])
        guard case .token(let token) = loaded.configuration.apps[0].credential else { return }
        #expect(token.key == .file(folder.path + "/key.p8"))
        let other = minimal.replacing(
            "token: {key_file: key.p8, key_id: ABC123DEFG, team_id: TEAM123456}",
            with: "certificate: {file: c.pem, passphrase_file: pass}\n    proxy_file: proxy")
        try folder.write("http://u:pw@proxy:3128\n", "proxy")
        try folder.write(other, "w.yaml")
        let app = try WorkerConfiguration.load(file: file).configuration.apps[0]
        #expect(app.proxy == ProxySettings(host: "proxy", port: 3_128, credentials: .text("u:pw")))
        guard case .certificate(let certificate) = app.credential else { return }
        #expect(certificate.passphrase == .file(folder.path + "/pass"))
    }
}
