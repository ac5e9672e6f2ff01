import Configuration
import Observability
import YAML

func fuzzYAML(_ bytes: UnsafeRawBufferPointer) {
    let document = Document(utf8: Array(bytes))
    require(
        document.root != nil || !document.problems.isEmpty || bytes.count < 1 << 16,
        "a document without a root must have a problem")
    for problem in document.problems {
        require(problem.mark.line >= 1 && problem.mark.column >= 1, "a problem must have a line and a column")
    }
}

func fuzzConfiguration(_ bytes: UnsafeRawBufferPointer) { load(Array(bytes)) }

/// Loads the text of a configuration file in a folder that does not exist.
private func load(_ text: [UInt8]) {
    do throws(ConfigurationError) {
        let loaded = try WorkerConfiguration.load(text, path: "/nowhere/worker.yaml") { name in
            name.utf8.count % 2 == 0 ? "value" : nil
        }
        check(loaded.warnings)
    } catch {
        require(!error.lines.isEmpty, "a rejected configuration must have an error")
        check(error.lines)
    }
}

private func check(_ lines: [String]) {
    for line in lines {
        require(!line.utf8.contains { $0 < 0x20 || $0 == 0x7F }, "each problem must be one line: \(line)")
    }
}

func fuzzQuantity(_ bytes: UnsafeRawBufferPointer) {
    let lines = bytes.split(separator: 10, maxSplits: 1, omittingEmptySubsequences: false).map {
        // Only characters that a quoted YAML scalar may contain unescaped.
        $0.filter { $0 >= 0x20 && $0 != 0x22 && $0 != 0x5C && $0 < 0x7F }
    }
    let text =
        Array(#"kafka: {bootstrap_servers: "localhost:9092", session_timeout: ""#.utf8) + lines[0]
        + Array("\"}\ndelivery: {max_age: \"".utf8) + lines[0] + Array("\", commit_interval: \"".utf8) + lines[0]
        + Array("\", max_open_bytes: \"".utf8) + (lines.count > 1 ? lines[1] : [])
        + Array(
            """
            "}
            apps:
              - {name: shop, bundle_ids: [a], token: {key_file: k.p8, key_id: ABC123DEFG, team_id: TEAM123456}}

            """.utf8)
    load(text)
}

func fuzzTimestamp(_ bytes: UnsafeRawBufferPointer) {
    var reader = FuzzReader(bytes)
    for wallMs in [reader.word(), reader.boundary(around: 1_800_000_000_000)] {
        let text = Timestamp(wallMs: wallMs).text
        require(
            text.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F } && text.utf8.count <= 40,
            "a time must be short printable text")
    }
}
