import Glibc

/// A directory of this run's own, readable by nobody else.
final class Scratch {
    let path: String

    init() throws(BenchFailure) {
        let base = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        var template = Array("\(base)/apns-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw BenchFailure("cannot make a directory in \(base): \(String(cString: strerror(errno)))")
        }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Removes it with everything in it.
    func remove() { removeTree(path) }

    func file(_ name: String) -> String { "\(path)/\(name)" }

    /// Makes a directory in an existing one.
    func makeDirectory(_ name: String) throws(BenchFailure) -> String {
        guard mkdir(file(name), 0o700) == 0 else {
            throw BenchFailure("cannot make \(file(name)): \(String(cString: strerror(errno)))")
        }
        return file(name)
    }

    /// Writes a file, over one of the name, and returns its path.
    @discardableResult
    func write(_ text: String, to name: String) throws(BenchFailure) -> String {
        let path = file(name)
        guard let stream = fopen(path, "we") else {
            throw BenchFailure("cannot make \(path): \(String(cString: strerror(errno)))")
        }
        let bytes = Array(text.utf8)
        let written = fwrite(bytes, 1, bytes.count, stream)
        guard fclose(stream) == 0, written == bytes.count else {
            throw BenchFailure("cannot write \(path): \(String(cString: strerror(errno)))")
        }
        return path
    }
}

/// Removes what is there, and what is in it when it is a directory; symbolic links are not followed.
private func removeTree(_ path: String) {
    guard unlink(path) != 0, let directory = opendir(path) else { return }
    for name in names(in: directory) { removeTree("\(path)/\(name)") }
    closedir(directory)
    rmdir(path)
}

/// What an open directory has, without itself and the one above.
func names(in directory: OpaquePointer) -> [String] {
    var names: [String] = []
    while let entry = readdir(directory) {
        let name = withUnsafePointer(to: &entry.pointee.d_name) {
            $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
        if name != ".", name != ".." { names.append(name) }
    }
    return names
}

/// The whole of a small file; `nil`: it cannot be read.
func contents(of path: String) -> String? {
    guard let stream = fopen(path, "re") else { return nil }
    defer { fclose(stream) }
    var bytes: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 65_536)
    while true {
        let count = fread(&buffer, 1, buffer.count, stream)
        guard count > 0 else { break }
        bytes += buffer[..<count]
    }
    return String(decoding: bytes, as: UTF8.self)
}
