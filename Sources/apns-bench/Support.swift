import Glibc

/// An error that ends the bench; one line that says what to do.
struct BenchFailure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Writes a line to standard error.
func complain(_ line: String) { writeAll(line + "\n", to: STDERR_FILENO) }

/// Writes text to standard output.
func say(_ text: String) { writeAll(text, to: STDOUT_FILENO) }

private func writeAll(_ text: String, to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
        let count = rest.withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
        if count < 0, errno == EINTR { continue }
        guard count > 0 else { return }
        rest = rest.dropFirst(count)
    }
}

/// The whole of a small file, or `nil` if it cannot be read.
func contents(of path: String) -> String? {
    guard let stream = fopen(path, "re") else { return nil }
    defer { fclose(stream) }
    var bytes = [UInt8](repeating: 0, count: 1 << 20)
    return String(decoding: bytes[..<fread(&bytes, 1, bytes.count, stream)], as: UTF8.self)
}

/// The clocks of this machine, which all its processes share.
enum Clocks {
    static var monotonicNs: Int64 { read(CLOCK_MONOTONIC) }
    static var wallNs: Int64 { read(CLOCK_REALTIME) }
    static var wallMs: Int64 { wallNs / 1_000_000 }
    /// The CPU time of this thread.
    static var threadNs: Int64 { read(CLOCK_THREAD_CPUTIME_ID) }

    private static func read(_ clock: clockid_t) -> Int64 {
        var time = timespec()
        clock_gettime(clock, &time)
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}

/// A blocking connection to a port of the loopback address, without Nagle's algorithm. The caller closes it.
func connectToLoopback(_ port: Int) throws(BenchFailure) -> Int32 {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = in_port_t(port).bigEndian
    address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
    let isConnected = withUnsafePointer(to: &address) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
        }
    }
    guard isConnected else {
        close(descriptor)
        throw BenchFailure("port \(port) of the loopback address accepts no connection")
    }
    var one: Int32 = 1
    setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &one, socklen_t(MemoryLayout<Int32>.size))
    return descriptor
}
