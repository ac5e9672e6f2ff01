internal import CLinux
import Glibc

/// A file could not be read.
package struct FileError: Error, Hashable, Sendable, CustomStringConvertible {
    package var path: String
    /// What the system says: `No such file or directory`.
    package var reason: String

    package init(path: String, reason: String) {
        self.path = path
        self.reason = reason
    }

    package var description: String { "cannot read \(path): \(reason)" }
}

/// A whole file, which may be a pipe except on a thread that reads regular files only
/// (`linux_read_regular_files_only`); one that is longer than `limit` bytes is refused.
///
/// - Parameter isReady: waits until a descriptor can be read; false: nothing came in time, and nothing more is waited
///   for. `nil`: a pipe is waited for as long as it takes, its writer too.
package func readFile(
    _ path: String, limit: Int = 1 << 20, whenReady isReady: ((Int32) -> Bool)? = nil
) throws(FileError) -> [UInt8] {
    func failure(_ reason: String? = nil) -> FileError {
        unsafe FileError(path: path, reason: reason ?? String(cString: strerror(errno)))
    }
    let descriptor =
        unsafe isReady == nil ? linux_open_to_read(path) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else {
        throw failure(descriptor == -2 ? "it is no regular file, but a pipe, a device or a folder" : nil)
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
        if let isReady, !isReady(descriptor) { throw failure("its end did not come in time") }
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe read(descriptor, $0.baseAddress, $0.count) }
        if count == 0 { return bytes }
        if count < 0 {
            if errno == EINTR || errno == EAGAIN && isReady != nil { continue }
            throw failure()
        }
        guard bytes.count + count <= limit else { throw failure("it is larger than \(limit) bytes") }
        bytes.append(contentsOf: chunk[..<count])
    }
}

/// A secret's file usually ends with a line break that is not the secret's.
func withoutLineBreak(_ bytes: [UInt8]) -> ArraySlice<UInt8> {
    var bytes = bytes[...]
    while bytes.last == UInt8(ascii: "\n") || bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
    return bytes
}

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
