import YAML

/// Where a configuration comes from.
enum Origin {
    case file(path: String)
    /// Names of flags by the path of the value each gives.
    case flags([String: String])

    /// What an error about the value at `path` begins with.
    func place(_ path: String, _ mark: Mark?) -> String {
        switch self {
        case .file(let file):
            let place = mark.map { "\(file):\($0.line):\($0.column)" } ?? file
            return path.isEmpty ? place : "\(place): \(path)"
        case .flags(let flags):
            return flags[path] ?? path.lastIndex(of: "[").flatMap { flags[String(path[..<$0])] } ?? path
        }
    }
}

/// One reading of a configuration: where it comes from, and what was found wrong with it so far.
final class Reading {
    let origin: Origin
    /// The environment; `nil`: texts are taken as they are (flags: the shell has substituted).
    let environment: ((String) -> String?)?
    /// What relative paths are relative to; ends with `/`, or is empty.
    let folder: String
    private(set) var problems: [ConfigurationProblem] = []
    private(set) var warnings: [ConfigurationProblem] = []
    private struct UnknownKey {
        var name: String
        var path: String
        var mark: Mark
        var siblings: [String]
    }

    private var unknown: [UnknownKey] = []
    /// Every key that may stand anywhere, in the order in which the sections ended.
    private var keys: [(name: String, path: String)] = []
    /// Where each value that was read stands, by path.
    private var marks: [String: Mark] = [:]

    init(_ origin: Origin, environment: ((String) -> String?)?, folder: String) {
        self.origin = origin
        self.environment = environment
        self.folder = folder
    }

    func noteMark(_ mark: Mark, of path: String) {
        marks[path] = mark
    }

    /// `mark`: where, when that is not the value at `path`.
    func refuse(_ path: String, _ text: String, at mark: Mark? = nil) {
        problems.append(ConfigurationProblem(path: path, mark: mark ?? marks[path], text: oneLine(text)))
    }

    /// A section was read to its end, and these are the keys it may have.
    func noteKeys(_ names: [String], of section: String) {
        keys += names.map { (name: $0, path: section.isEmpty ? $0 : "\(section).\($0)") }
    }

    /// A key that its section does not have; what it should have been is said by `finish`, when all sections are known.
    func refuseUnknown(_ name: String, at mark: Mark, of section: String, known: [String]) {
        unknown.append(
            UnknownKey(name: name, path: section.isEmpty ? name : "\(section).\(name)", mark: mark, siblings: known))
    }

    /// Names the nearest key for each unknown one: of its own section, else of another, where an indentation slipped.
    func finish() {
        for key in unknown {
            let suggestion: String
            if let near = nearest(to: key.name, among: key.siblings) {
                suggestion = "did you mean \(near)?"
            } else if let near = nearest(to: key.name, among: keys.map(\.name)),
                let path = keys.first(where: { $0.name == near })?.path
            {
                suggestion = "did you mean \(path)?"
            } else {
                suggestion = "valid here: \(key.siblings.joined(separator: ", "))"
            }
            refuse(key.path, "unknown key; \(suggestion)", at: key.mark)
        }
        unknown = []
    }

    func warn(_ path: String, _ text: String) {
        warnings.append(ConfigurationProblem(path: path, mark: marks[path], text: oneLine(text)))
    }

    /// The user gave a value at `path`.
    func isGiven(_ path: String) -> Bool { marks[path] != nil }

    /// What an error about the value at `path` begins with.
    func place(_ path: String) -> String { origin.place(path, marks[path]) }

    /// One line each, in the order of the document.
    var problemLines: [String] { lines(problems) }
    var warningLines: [String] { lines(warnings) }

    private func lines(_ problems: [ConfigurationProblem]) -> [String] {
        let end = Mark(line: .max, column: 0)
        // The sort is stable: what has no place, or the same, stays in order.
        return problems.sorted { $0.mark ?? end < $1.mark ?? end }.map { problem in
            "\(oneLine(origin.place(problem.path, problem.mark))): \(problem.text)"
        }
    }

    func absolute(_ path: String) -> String {
        path.hasPrefix("/") ? path : folder + path
    }
}
