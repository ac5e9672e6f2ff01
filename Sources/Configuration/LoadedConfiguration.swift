import Glibc
import YAML

/// A configuration that may be used, and what is odd about it.
package struct LoadedConfiguration: Hashable, Sendable {
    package var configuration: WorkerConfiguration
    /// Each one line, as in `ConfigurationError`.
    package var warnings: [String]
}

/// What `run`, `check` and `channels` take instead of a file: one app, everything else by default.
package struct AppFlags: Hashable, Sendable {
    package var bootstrapServers: String?
    package var keyFile: String?
    package var keyID: String?
    package var teamID: String?
    package var bundleIDs: [String] = []
    package var environment: String?
    package var host: String?
    package var port: String?
    package var caFile: String?
    package var manageHost: String?
    package var managePort: String?

    package init() {}
}

extension WorkerConfiguration {
    /// Reads and checks a file. `environment` gives the values of `${NAME}`.
    package static func load(
        file path: String, environment: (String) -> String? = processEnvironment
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path)
        } catch {
            throw ConfigurationError(lines: [oneLine("\(error)")])
        }
        return try load(bytes, path: path, environment: environment)
    }

    /// Reads and checks the text of a file; `path` names it in errors, and its folder is what relative paths start
    /// from.
    package static func load(
        _ bytes: [UInt8], path: String, environment: (String) -> String?
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let document = Document(utf8: bytes)
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return try withoutActuallyEscaping(environment) { environment throws(ConfigurationError) in
            let reading = Reading(.file(path: path), environment: environment, folder: folder)
            for problem in document.problems {
                let hint =
                    isUnquotedVariable(problem.mark, in: bytes)
                    ? "; inside of [] and {} write \"${NAME}\", in quotes" : ""
                reading.refuse("", problem.text + hint, at: problem.mark)
            }
            return try load(document.root, reading, isComplete: document.problems.isEmpty)
        }
    }

    /// Whether reading ended at the brace of a `${`, which opens a mapping where it stands unquoted inside of another
    /// collection in brackets.
    private static func isUnquotedVariable(_ mark: Mark, in bytes: [UInt8]) -> Bool {
        let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: mark.line, omittingEmptySubsequences: false)
        guard mark.line >= 1, mark.line <= lines.count, mark.column >= 2 else { return false }
        // Columns count characters, as Unicode has them.
        let text = String(decoding: lines[mark.line - 1], as: UTF8.self).unicodeScalars.dropFirst(mark.column - 2)
        return text.starts(with: "${".unicodeScalars)
    }

    /// Checks what flags say; errors name the flag.
    package static func load(flags: AppFlags) throws(ConfigurationError) -> LoadedConfiguration {
        let reading = Reading(
            .flags([
                "kafka.bootstrap_servers": "--bootstrap-servers", "apps[0].token.key_file": "--key-file",
                "apps[0].token": "--key-file", "apps[0].token.key_id": "--key-id",
                "apps[0].token.team_id": "--team-id", "apps[0].bundle_ids": "--bundle-id",
                "apps[0].environment": "--environment", "apps[0].host": "--host", "apps[0].port": "--port",
                "apps[0].tls.ca_file": "--ca-file", "apps[0].broadcast.manage_host": "--manage-host",
                "apps[0].broadcast.manage_port": "--manage-port",
            ]), environment: nil, folder: "")
        return try load(flags.tree, reading, isComplete: true)
    }

    private static func load(
        _ root: Node?, _ reading: Reading, isComplete: Bool
    ) throws(ConfigurationError) -> LoadedConfiguration {
        guard let root else {
            if isComplete { reading.refuse("", "the file is empty") }
            throw ConfigurationError(lines: reading.problemLines)
        }
        guard var section = Value(node: root, path: "", reading: reading).section() else {
            throw ConfigurationError(lines: reading.problemLines)
        }
        let configuration = WorkerConfiguration(reading: &section)
        configuration.check(reading)
        reading.finish()
        guard reading.problemLines.isEmpty else { throw ConfigurationError(lines: reading.problemLines) }
        return LoadedConfiguration(configuration: configuration, warnings: reading.warningLines)
    }

    package static let processEnvironment: @Sendable (String) -> String? = { name in
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }
}

extension AppFlags {
    /// The document that says the same, so that both are checked by the same code.
    fileprivate var tree: Node {
        let mark = Mark(line: 1, column: 1)
        func scalar(_ text: String) -> Node { Node(.scalar(text, isPlain: false), at: mark) }
        func mapping(_ entries: [(String, Node?)]) -> Node {
            let given = entries.compactMap { name, node in node.map { Entry(name: name, at: mark, value: $0) } }
            return Node(.mapping(given), at: mark)
        }
        let app = mapping([
            ("name", scalar("default")),
            ("bundle_ids", bundleIDs.isEmpty ? nil : Node(.sequence(bundleIDs.map(scalar)), at: mark)),
            ("environment", environment.map(scalar)),
            ("host", host.map(scalar)),
            ("port", port.map(scalar)),
            (
                "token",
                mapping([
                    ("key_file", keyFile.map(scalar)), ("key_id", keyID.map(scalar)), ("team_id", teamID.map(scalar)),
                ])
            ),
            ("tls", caFile.map { mapping([("ca_file", scalar($0))]) }),
            (
                "broadcast",
                mapping([("manage_host", manageHost.map(scalar)), ("manage_port", managePort.map(scalar))])
            ),
        ])
        return mapping([
            ("kafka", mapping([("bootstrap_servers", bootstrapServers.map(scalar))])),
            ("apps", Node(.sequence([app]), at: mark)),
        ])
    }
}
