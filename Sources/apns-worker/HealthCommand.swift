import Configuration
import Glibc

private struct HealthOptions {
    var address = NetworkAddress(host: "127.0.0.1", port: 9464)
    var page = "/livez"
}

private let healthTable = OptionTable<HealthOptions>(
    command: "apns-worker health", usage: ["[OPTIONS]"],
    about: [
        "Asks the admin endpoint of a running worker whether the worker is alive, as the health check of a container that has no shell.",
        "Example: apns-worker health --listen 127.0.0.1:9464",
    ],
    options: [
        .init(
            "listen", value: "HOST:PORT", "The admin endpoint, as in admin.listen (default 127.0.0.1:9464)."
        ) {
            options, text throws(UsageError) in
            guard let address = NetworkAddress(text) else {
                throw UsageError("expected HOST:PORT (an IPv6 address in brackets: [::1]:9464)")
            }
            options.address = address
        },
        .init("ready", "Ask whether the worker has joined its consumer groups (/readyz).") { $0.page = "/readyz" },
    ],
    notes: "Exit codes: 0 the worker answers 200, 1 it answers otherwise, or not within 3 s, 64 wrong usage.")

func askHealth(_ arguments: [String]) throws -> ExitCode {
    let options = try parsed(healthTable, arguments, HealthOptions())
    let (line, fault) = statusLine(options.address, options.page)
    guard let line else {
        complain("apns-worker health: \(options.address): \(fault)")
        return .failed
    }
    guard line.split(separator: " ").dropFirst().first == "200" else {
        complain("apns-worker health: \(options.address)\(options.page) answers \(line)")
        return .failed
    }
    return .fine
}

/// Returns the first line of the answer to GET, or the reason why there is none. Each call of the system waits for up
/// to 3 s.
private func statusLine(_ address: NetworkAddress, _ page: String) -> (String?, fault: String) {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    guard getaddrinfo(address.host, "\(address.port)", &hints, &list) == 0, let first = list else {
        return (nil, "the host is unknown")
    }
    defer { freeaddrinfo(first) }
    let descriptor = socket(first.pointee.ai_family, first.pointee.ai_socktype | Int32(SOCK_CLOEXEC.rawValue), 0)
    defer { close(descriptor) }
    var limit = timeval(tv_sec: 3, tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
        setsockopt(descriptor, SOL_SOCKET, option, &limit, socklen_t(MemoryLayout<timeval>.size))
    }
    let request = "GET \(page) HTTP/1.0\r\n\r\n"
    guard connect(descriptor, first.pointee.ai_addr, first.pointee.ai_addrlen) == 0,
        send(descriptor, request, request.utf8.count, Int32(MSG_NOSIGNAL)) == request.utf8.count
    else { return (nil, String(cString: strerror(errno))) }
    var buffer = [UInt8](repeating: 0, count: 256)
    let count = recv(descriptor, &buffer, buffer.count, 0)
    guard count > 0 else { return (nil, count == 0 ? "closed without an answer" : String(cString: strerror(errno))) }
    let line = buffer[..<count].prefix { $0 != UInt8(ascii: "\r") && $0 != UInt8(ascii: "\n") }
    return (String(decoding: line, as: UTF8.self), "")
}
