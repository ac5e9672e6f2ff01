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

    /// Parses and validates the text of a file. Errors name `path`. Relative paths in the text are relative to the
    /// folder of `path`.
    package static func load(
        _ bytes: [UInt8], path: String, environment: (String) -> String?
    ) throws(ConfigurationError) -> LoadedConfiguration {
        let document = Document(utf8: bytes)
        let folder = path.lastIndex(of: "/").map { String(path[...$0]) } ?? ""
        return try withoutActuallyEscaping(environment) { environment throws(ConfigurationError) in
            let reading = Reading(.file(path: path), environment: environment, folder: folder)
            for problem in document.problems { reading.refuse("", problem.text, at: problem.mark) }
            return try load(document.root, reading, isComplete: document.problems.isEmpty)
        }
    }

    package static func load(flags: AppFlags) throws(ConfigurationError) -> LoadedConfiguration {
        var places = Dictionary(uniqueKeysWithValues: flags.values.map { ($0.path, $0.flag) })
        places["apps[0].token"] = "--key-file"
        return try load(flags.tree, Reading(.flags(places), environment: nil, folder: ""), isComplete: true)
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
    fileprivate var values: [(flag: String, path: String, value: Node?)] {
        func scalar(_ text: String) -> Node { Node(.scalar(text, isPlain: false), at: Self.mark) }
        return [
            ("--bootstrap-servers", "kafka.bootstrap_servers", bootstrapServers.map(scalar)),
            (
                "--bundle-id", "apps[0].bundle_ids",
                bundleIDs.isEmpty ? nil : Node(.sequence(bundleIDs.map(scalar)), at: Self.mark)
            ),
            ("--environment", "apps[0].environment", environment.map(scalar)),
            ("--host", "apps[0].host", host.map(scalar)), ("--port", "apps[0].port", port.map(scalar)),
            ("--key-file", "apps[0].token.key_file", keyFile.map(scalar)),
            ("--key-id", "apps[0].token.key_id", keyID.map(scalar)),
            ("--team-id", "apps[0].token.team_id", teamID.map(scalar)),
            ("--ca-file", "apps[0].tls.ca_file", caFile.map(scalar)),
            ("--manage-host", "apps[0].broadcast.manage_host", manageHost.map(scalar)),
            ("--manage-port", "apps[0].broadcast.manage_port", managePort.map(scalar)),
        ]
    }

    private static let mark = Mark(line: 1, column: 1)

    /// The YAML document that is equivalent to the flags, so that the code that validates files also validates flags.
    fileprivate var tree: Node {
        func mapping(_ prefix: String, _ more: [Entry] = []) -> Node {
            let entries = values.compactMap { value -> Entry? in
                guard let node = value.value, value.path.hasPrefix(prefix) else { return nil }
                let name = String(value.path.dropFirst(prefix.count))
                return name.contains(".") ? nil : Entry(name: name, at: Self.mark, value: node)
            }
            return Node(.mapping(more + entries), at: Self.mark)
        }
        func entry(_ name: String, _ value: Node) -> Entry { Entry(name: name, at: Self.mark, value: value) }
        let app = mapping(
            "apps[0].",
            [entry("name", Node(.scalar("default", isPlain: false), at: Self.mark))]
                + ["token", "tls", "broadcast"].map { entry($0, mapping("apps[0].\($0).")) })
        let apps = Node(.sequence([app]), at: Self.mark)
        return Node(.mapping([entry("kafka", mapping("kafka.")), entry("apps", apps)]), at: Self.mark)
    }
}
