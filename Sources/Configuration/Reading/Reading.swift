import YAML

/// The state of reading a configuration: its source, and the problems found so far.
final class Reading {
    /// The path of the configuration file, or `nil` for command-line flags.
    private let file: String?
    /// The environment for substitutions, or `nil` for command-line flags, in which the shell substitutes variables.
    let environment: ((String) -> String?)?
    /// An error or warning: the key's path (`apps[0].token.key_id`, or empty for the document), its position (`nil` for
    /// a default or a flag), and one line with the mistake and the fix.
    private typealias Problem = (path: String, mark: Mark?, text: String)
    private var problems: [Problem] = []
    private var warnings: [Problem] = []
    private var unknown: [(name: String, path: String, mark: Mark, siblings: [String])] = []
    /// The valid keys of all sections that have been read, in the order in which the reading of each section ended.
    private var keys: [(name: String, path: String)] = []
    private var marks: [String: Mark] = [:]
    /// The settings read so far, with defaults. For a path that occurs twice, the last one counts.
    var settings: [(path: String, setting: Setting)] = []

    init(file: String?, environment: ((String) -> String?)?) {
        self.file = file
        self.environment = environment
    }

    func noteMark(_ mark: Mark, of path: String) { marks[path] = mark }

    /// - Parameter mark: The position in the file, if it differs from the position of the value at `path`.
    func refuse(_ path: String, _ text: String, at mark: Mark? = nil) {
        problems.append((path, mark ?? marks[path], oneLine(text)))
    }

    /// Records a section's valid keys and its unknown keys, which `finish` rejects after all sections have been read.
    func noteKeys(_ valid: [String], unknown: [(name: String, mark: Mark)], of section: Section) {
        keys += valid.map { ($0, section.path(of: $0)) }
        self.unknown += unknown.map { ($0.name, section.path(of: $0.name), $0.mark, valid) }
    }

    /// Rejects the unknown keys. Suggests the closest valid key of the same section, or of another section in case the
    /// indentation is wrong.
    func finish() {
        for key in unknown {
            let near =
                nearest(to: key.name, among: key.siblings)
                ?? nearest(to: key.name, among: keys.map(\.name)).flatMap { near in
                    keys.first { $0.name == near }?.path
                }
            let suggestion =
                near.map { "did you mean \($0)?" } ?? "valid keys: \(key.siblings.joined(separator: ", "))"
            refuse(key.path, "unknown key; \(suggestion)", at: key.mark)
        }
    }

    func warn(_ path: String, _ text: String) {
        warnings.append((path, marks[path], oneLine(text)))
    }

    func isGiven(_ path: String) -> Bool { marks[path] != nil }

    /// Returns the prefix of an error message about the value at `path`, such as `worker.yaml:12:5: delivery.max_age`.
    func place(_ path: String) -> String { place(path, marks[path]) }

    private func place(_ path: String, _ mark: Mark?) -> String {
        if let file {
            let place = mark.map { "\(file):\($0.line):\($0.column)" } ?? file
            return path.isEmpty ? place : "\(place): \(path)"
        }
        // Flags are named like their keys: `--key-id` for `apps[0].token.key_id`.
        let key = path.split(separator: ".").last.map { String($0.prefix { $0 != "[" }) } ?? ""
        return "--" + (["token": "key-file", "bundle_ids": "bundle-id"][key] ?? key.replacing("_", with: "-"))
    }

    /// One line per problem, in the order of the document.
    var problemLines: [String] { lines(problems) }
    var warningLines: [String] { lines(warnings) }

    private func lines(_ problems: [Problem]) -> [String] {
        let end = Mark(line: .max, column: 0)
        // The sort is stable, so problems without a position, or with equal positions, keep their order.
        return problems.sorted { $0.mark ?? end < $1.mark ?? end }.map { problem in
            "\(oneLine(place(problem.path, problem.mark))): \(problem.text)"
        }
    }

    /// Returns a path for the working directory. Relative paths in a file are relative to the file's folder.
    func absolute(_ path: String) -> String {
        guard !path.hasPrefix("/"), let slash = file?.lastIndex(of: "/") else { return path }
        return file![...slash] + path
    }
}
