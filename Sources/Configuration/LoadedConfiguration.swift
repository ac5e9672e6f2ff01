import Glibc
import YAML

package struct LoadedConfiguration: Hashable, Sendable {
    package var configuration: WorkerConfiguration
    /// Warnings about a valid configuration, one line each, in the format of `ConfigurationError.lines`.
    package var warnings: [String]
}

/// The command-line flags that describe one app and replace a configuration file. All other settings have their
/// defaults.
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
    /// Reads and validates a configuration file. `environment` returns the value of a variable for `${NAME}`.
    package static func load(
        file path: String, environment: @escaping (String) -> String? = processEnvironment
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let bytes: [UInt8]
        do throws(FileError) {
            bytes = try readFile(path)
        } catch {
            throw ConfigurationError(lines: [oneLine("\(error)")])
        }
        return try load(bytes, path: path, environment: environment)
    }

    /// Parses and validates the text of a file. Errors name `path`. Relative paths in the text are relative to the
    /// folder of `path`.
    package static func load(
        _ bytes: [UInt8], path: String, environment: @escaping (String) -> String?
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let document = Document(utf8: bytes)
        let reading = Reading(file: path, environment: environment)
        for problem in document.problems { reading.refuse("", problem.text, at: problem.mark) }
        return try load(document.root, reading, isComplete: document.problems.isEmpty)
    }

    package static func load(flags: AppFlags) throws(ConfigurationError) -> LoadedConfiguration {
        try load(flags.tree, Reading(file: nil, environment: nil), isComplete: true)
    }

    private static func load(
        _ root: Node?, _ reading: Reading, isComplete: Bool
    ) throws(ConfigurationError) -> LoadedConfiguration {
        if root == nil, isComplete { reading.refuse("", "the file is empty") }
        guard let root, var section = Value(node: root, path: "", reading: reading).section() else {
            throw ConfigurationError(lines: reading.problemLines)
        }
        var configuration = WorkerConfiguration(reading: &section)
        configuration.check(reading)
        reading.finish()
        guard reading.problemLines.isEmpty else { throw ConfigurationError(lines: reading.problemLines) }
        let names = Setting(text: configuration.apps.map(\.name).joined(separator: ", "))
        configuration.settings = Dictionary(reading.settings + [("apps", names)], uniquingKeysWith: { $1 })
        return LoadedConfiguration(configuration: configuration, warnings: reading.warningLines)
    }

    package static let processEnvironment: @Sendable (String) -> String? = { name in
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }
}

extension AppFlags {
    /// The YAML document that is equivalent to the flags, so that the code that validates files also validates flags.
    fileprivate var tree: Node {
        let mark = Mark(line: 1, column: 1)
        func scalar(_ text: String) -> Node { Node(.scalar(text, isPlain: false), at: mark) }
        func list(_ items: [Node]) -> Node { Node(.sequence(items), at: mark) }
        func mapping(_ members: KeyValuePairs<String, Node?>) -> Node {
            let entries = members.compactMap { name, value in value.map { Entry(name: name, at: mark, value: $0) } }
            return Node(.mapping(entries), at: mark)
        }
        let app = mapping([
            "name": scalar("default"), "bundle_ids": bundleIDs.isEmpty ? nil : list(bundleIDs.map(scalar)),
            "environment": environment.map(scalar), "host": host.map(scalar), "port": port.map(scalar),
            "token": mapping([
                "key_file": keyFile.map(scalar), "key_id": keyID.map(scalar), "team_id": teamID.map(scalar),
            ]),
            "tls": mapping(["ca_file": caFile.map(scalar)]),
            "broadcast": mapping(["manage_host": manageHost.map(scalar), "manage_port": managePort.map(scalar)]),
        ])
        return mapping(["kafka": mapping(["bootstrap_servers": bootstrapServers.map(scalar)]), "apps": list([app])])
    }
}
