import Configuration
import Glibc

/// A response of a worker's admin endpoint.
struct AdminAnswer {
    /// The first line, such as `HTTP/1.1 200 OK`.
    let statusLine: String
    let body: [UInt8]

    var status: Int? { statusLine.split(separator: " ").dropFirst().first.flatMap { Int($0) } }

    /// Requests a page. Returns `nil` on an error, after two seconds without data or five seconds in total, or if the
    /// response is larger than 16 MiB.
    init?(to path: String, of listen: NetworkAddress) {
        guard let answer = page(path, of: listen) else { return nil }
        let line = answer.prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
        statusLine = oneLine(String(decoding: line, as: UTF8.self), limit: 100)
        body = answer.firstRange(of: Array("\r\n\r\n".utf8)).map { Array(answer[$0.upperBound...]) } ?? []
    }
}

private func page(_ path: String, of listen: NetworkAddress) -> [UInt8]? {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var found: UnsafeMutablePointer<addrinfo>?
    // A server that listens on all addresses is reachable on the loopback address.
    let host = listen.host == "0.0.0.0" ? "127.0.0.1" : listen.host == "::" ? "::1" : listen.host
    guard getaddrinfo(host, "\(listen.port)", &hints, &found) == 0 else { return nil }
    defer { freeaddrinfo(found) }
    var next = found
    while let address = next?.pointee {
        if let answer = page(path, of: listen, at: address) { return answer }
        next = address.ai_next
    }
    return nil
}

private func page(_ path: String, of listen: NetworkAddress, at address: addrinfo) -> [UInt8]? {
    let descriptor = socket(address.ai_family, address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    // The timeouts also limit connect(2), see socket(7).
    var limit = timeval(tv_sec: 2, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
    }
    let request = Array("GET \(path) HTTP/1.1\r\nHost: \(listen)\r\nConnection: close\r\n\r\n".utf8)
    guard connect(descriptor, address.ai_addr, address.ai_addrlen) == 0,
        Glibc.send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count
    else { return nil }
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 64 << 10)
    let deadline = Deadline(after: .seconds(5))
    while answer.count <= 16 << 20, !deadline.hasPassed {
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count <= 0 { return count == 0 && !answer.isEmpty ? answer : nil }
        answer += buffer[..<count]
    }
    return nil
}
