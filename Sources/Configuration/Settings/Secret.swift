/// Something that must not be shown: it prints as `(secret)`.
package enum Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    case text(String)
    /// The absolute path (or one relative to the working directory) of the file that holds it.
    case file(String)

    package var description: String {
        switch self {
        case .text: "(secret)"
        case .file(let path): path
        }
    }

    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// The secret's bytes: the text, or what the file holds now (at most 1 MiB).
    package func load() throws(FileError) -> [UInt8] {
        switch self {
        case .text(let text): Array(text.utf8)
        case .file(let path): try readFile(path)
        }
    }

    /// A passphrase: `load` as text, without the line break at its end.
    package func loadLine() throws(FileError) -> String {
        Self.line(in: try load())
    }

    /// The bytes as text, without the line break at their end.
    package static func line(in bytes: [UInt8]) -> String {
        String(decoding: withoutLineBreak(bytes), as: UTF8.self)
    }

    /// The file it stands in; `nil`: it stands in the configuration.
    package var path: String? {
        switch self {
        case .text: nil
        case .file(let path): path
        }
    }
}
