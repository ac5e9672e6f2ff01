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

    /// Keeps other processes from what they lock the same directory for, until the descriptor that is returned is
    /// closed; waits for them 10 s.
    static func lock(_ directory: String) throws(SimulatorError) -> Int32 {
        let fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard fd >= 0 else { throw failure("cannot open the directory \(directory)") }
        var tries = 0
        while flock(fd, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR, tries < 1_000 else {
                let error = failure("cannot lock the directory \(directory)")
                close(fd)
                throw error
            }
            tries += 1
            usleep(10_000)
        }
        return fd
    }

    /// Replaces a file, whole or not at all; private ones can be read by their owner only.
    static func write(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
        let draft = "\(path).new"
        try writeDraft(text, to: draft, isPrivate: isPrivate)
        guard rename(draft, path) == 0 else { throw failure("cannot write \(path)") }
    }

    private static func writeDraft(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
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
