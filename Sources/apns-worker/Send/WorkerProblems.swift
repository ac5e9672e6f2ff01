import Configuration
import Glibc
import JSON

/// Returns possible causes of a missing result: paused apps, and what the worker's `/status` page shows.
func workerProblems(_ configuration: WorkerConfiguration) -> [String] {
    let paused = configuration.apps.filter(\.isPaused).map {
        "app \($0.name) is paused in this configuration: none of its notifications are sent until you remove paused: true"
    }
    guard let listen = configuration.admin.listen, listen.port > 0 else { return paused }
    guard let answer = adminPage("/status", of: listen), let start = answer.firstRange(of: Array("\r\n\r\n".utf8)),
        let problems = try? Array(answer[start.upperBound...]).withUnsafeBytes({ try problems(JSONReader($0)) })
    else {
        return paused + ["no worker answers at \(listen) (admin.listen); check /status of the running workers"]
    }
    if problems.isEmpty { return paused + ["the worker at \(listen) reports no problems"] }
    return paused + problems.prefix(5).map { "the worker at \(listen) reports: \(oneLine($0, limit: 1_200))" }
}

private func problems(_ status: consuming JSONReader) throws -> [String] {
    var reader = status
    var lines: [String] = []
    try reader.enterObject()
    while let name = reader.nextMember() {
        guard name.equals("problems") else {
            reader.skip()
            continue
        }
        try reader.enterArray()
        while reader.nextElement() {
            var texts: [String: String] = [:]
            try reader.enterObject()
            while let name = reader.nextMember() {
                if reader.kind == .string { texts[name.string] = try reader.text().string } else { reader.skip() }
            }
            lines.append("\(texts["subject"] ?? ""): \(texts["text"] ?? ""). Advice: \(texts["advice"] ?? "")")
        }
    }
    return lines
}

/// Requests a page of a worker's admin endpoint. Returns the whole response, or `nil` on an error or after two seconds
/// without data.
func adminPage(_ path: String, of listen: NetworkAddress) -> [UInt8]? {
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
    while true {
        let count = recv(descriptor, &buffer, buffer.count, 0)
        if count <= 0 { return count == 0 ? answer : nil }
        answer += buffer[..<count]
    }
}
