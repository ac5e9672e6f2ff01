import Glibc

/// The few things done with files: whole small texts, read and written.
enum Files {
    static func makeDirectory(_ path: String) throws(SimulatorError) {
        guard mkdir(path, 0o755) == 0 || errno == EEXIST else { throw failure("cannot make the directory \(path)") }
    }

    /// `nil`: there is no such file.
    static func read(_ path: String, limit: Int = 1 << 20) throws(SimulatorError) -> String? {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        if fd < 0, errno == ENOENT { return nil }
        guard fd >= 0 else { throw failure("cannot read \(path)") }
        defer { close(fd) }
        var bytes: [UInt8] = []
        while bytes.count < limit {
            var piece = [UInt8](repeating: 0, count: 16 * 1024)
            let count = Glibc.read(fd, &piece, piece.count)
            guard count >= 0 else { throw failure("cannot read \(path)") }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Replaces a file; private ones can be read by their owner only.
    static func write(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
        let fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard fd >= 0 else { throw failure("cannot write \(path)") }
        defer { close(fd) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(fd, $0.baseAddress, $0.count) }
            guard count > 0 else { throw failure("cannot write \(path)") }
            bytes = bytes.dropFirst(count)
        }
    }

    private static func failure(_ what: String) -> SimulatorError {
        SimulatorError("\(what): \(String(cString: strerror(errno)))")
    }
}
