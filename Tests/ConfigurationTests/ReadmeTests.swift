import Configuration
import Foundation
import TestSupport
import Testing

/// The YAML blocks of the README and of the articles on configuration and certificates.
@Suite struct ReadmeTests {
    static func blocks(of path: String) throws -> [String] { try Repository.blocks("yaml", of: path) }

    /// The blocks that are complete files: the smallest configuration, the reference, and one with other values.
    static func blocks() throws -> [String] {
        try blocks(of: "README.md") + blocks(of: "Sources/Worker/Worker.docc/ConfigurationReference.md")
    }

    @Test func `Each YAML block is a valid configuration`() throws {
        let blocks = try Self.blocks()
        #expect(blocks.count == 3)
        for block in blocks {
            #expect(errors(block, ["HOSTNAME": "worker-0", "P12_PASS": "a", "KAFKA_PASSWORD": "b"]) == [], "\(block)")
        }
    }

    @Test func `The reference lists the defaults`() throws {
        let blocks = try Self.blocks()
        try #require(blocks.count == 3)
        #expect(try load(blocks[1]).configuration == load(blocks[0]).configuration)
    }

    /// Every key that the code reads must be in the reference or in one of the examples.
    @Test func `The reference explains each key`() throws {
        let settings = "Sources/Configuration/Settings"
        let files = try FileManager.default.contentsOfDirectory(atPath: Repository.path(settings))
        let code = try files.map { try Repository.text("\(settings)/\($0)") }.joined()
        let keys = Set(code.matches(of: /(?:read|required|section|requiredSection)\("([a-z_]+)"/).map { $0.1 })
        #expect(keys.count > 50, "the pattern no longer finds the keys in the code")
        let text = try Self.blocks().dropFirst().joined()
        for key in keys.sorted() { #expect(text.contains("\(key):"), "\(key) is not in ConfigurationReference.md") }
    }

    @Test func `Each form of a certificate in the article is valid`() throws {
        let forms = try Self.blocks(of: "Sources/Worker/Worker.docc/Certificates.md")
        #expect(forms.count == 7)
        for form in forms {
            let file = minimal.replacing(/token: .*\n/, with: form)
            #expect(file.contains("certificate"))
            #expect(
                errors(file, ["CERT_PEM": "a", "KEY_PEM": "b", "P12_BASE64": "c", "P12_PASS": "d"]) == [], "\(form)")
        }
    }

    @Test func `The configuration in the article for users of node-apn is valid`() throws {
        let blocks = try Self.blocks(of: "Sources/Worker/Worker.docc/ComingFromNodeAPN.md")
        #expect(blocks.count == 1)
        for block in blocks { #expect(errors(block) == []) }
    }
}
