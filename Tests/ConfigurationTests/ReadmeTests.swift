import Configuration
import Foundation
import Testing

/// What stands in the README's YAML blocks.
@Suite struct ReadmeTests {
    static let readme = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: "../../README.md")

    /// The blocks that are whole files: the smallest one, the reference, other values.
    static func blocks() throws -> [String] {
        try String(contentsOf: readme.standardizedFileURL, encoding: .utf8).components(separatedBy: "```yaml\n")
            .dropFirst().map { $0.components(separatedBy: "```")[0] }
    }

    @Test func eachBlockIsAFileThatWorks() throws {
        let blocks = try Self.blocks()
        #expect(blocks.count == 3)
        for block in blocks {
            #expect(errors(block, ["HOSTNAME": "worker-0", "P12_PASS": "a", "KAFKA_PASSWORD": "b"]) == [], "\(block)")
        }
    }

    @Test func theReferenceSaysTheDefaults() throws {
        let blocks = try Self.blocks()
        try #require(blocks.count == 3)
        #expect(try load(blocks[1]).configuration == load(blocks[0]).configuration)
    }

    /// Whatever key is known stands in the reference or among the examples.
    @Test(arguments: [
        "group_instance_id", "session_timeout", "assignment", "create_topics", "copy_headers", "include_bad_tokens",
        "max_attempts", "ordering", "apns_id", "response_timeout", "in_doubt", "resend_max", "max_age", "max_open",
        "max_open_bytes", "commit_interval", "verdicts", "environment_guard", "rate_limit", "paused", "proxy",
        "index_authorization", "ca_file", "verify", "certificate", "pkcs12_file", "rebalance", "shutdown", "listen",
        "parts", "crash",
    ])
    func aKeyIsExplained(key: String) throws {
        let text = try Self.blocks().dropFirst().joined()
        #expect(text.contains("\(key):"))
    }
}
