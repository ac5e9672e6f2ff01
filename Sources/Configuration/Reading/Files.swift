internal import CLinux
import Glibc

package struct FileError: Error, Hashable, Sendable, CustomStringConvertible {
    package var path: String
    /// Why the file cannot be read, such as the system's error text `No such file or directory`.
    package var reason: String

    package var description: String { "cannot read \(path): \(reason)" }
}

/// Returns the contents of a file of up to `limit` bytes. The file may be a pipe, except on a thread restricted to
/// regular files (`linux_read_regular_files_only`).
///
/// - Parameter isReady: A function that waits until a descriptor is readable and returns `false` on a timeout. With
///   `nil`, reading waits for a pipe's writer indefinitely.
package func readFile(
    _ path: String, limit: Int = 1 << 20, whenReady isReady: ((Int32) -> Bool)? = nil
) throws(FileError) -> [UInt8] {
    func failure(_ reason: String? = nil) -> FileError {
        unsafe FileError(path: path, reason: reason ?? String(cString: strerror(errno)))
    }
    let descriptor =
        unsafe isReady == nil ? linux_open_to_read(path) : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)
    guard descriptor >= 0 else {
        throw failure(descriptor == -2 ? "it is not a regular file, but a pipe, a device or a folder" : nil)
    }
    defer { close(descriptor) }
    var bytes: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
        if let isReady, !isReady(descriptor) { throw failure("the end of the input did not arrive in time") }
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

/// A secret, such as a password, that must not be shown. It prints as `(secret)`, or as the path of its file.
package enum Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    case text(String)
    /// The path of the file that contains the secret, absolute or relative to the working directory.
    case file(String)

    package var description: String { path ?? "(secret)" }

    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }

    /// Returns the content of a secret's file as text, without line breaks at its end, which are not part of the
    /// secret.
    package static func line(in bytes: [UInt8]) -> String {
        var bytes = bytes[...]
        while bytes.last == UInt8(ascii: "\n") || bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The path of the secret's file, or `nil` if the configuration itself contains the secret.
    package var path: String? { if case .file(let path) = self { path } else { nil } }
}
