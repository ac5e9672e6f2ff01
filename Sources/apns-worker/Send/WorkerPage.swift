import Configuration
import Glibc
import JSON

/// What a worker says of itself on `/status`, as far as `send` wants to know it.
struct WorkerPage {
    private struct Problem {
        var subject = ""
        var text = ""
        var advice = ""
    }

    private var groupID = ""
    private var problems: [Problem] = []
    /// Names of apps.
    private var paused: [String] = []

    private static let limitBytes = 4 << 20
    /// Of the whole answer, however little of it comes at a time.
    private static let timeout = Duration.seconds(2)

    /// Lines about what may keep a notification from its result.
    static func lines(of configuration: WorkerConfiguration) -> [String] {
        let pausedHere = configuration.apps.filter(\.isPaused).map { app in
            "app \(app.name) is paused in this configuration: of such a one nothing is sent until its paused: true goes"
        }
        guard let listen = configuration.admin.listen, listen.port > 0 else { return pausedHere }
        guard let page = WorkerPage(listen), page.groupID == configuration.kafka.groupID else {
            return pausedHere + [
                "no worker answers at \(listen) (admin.listen); where one runs, its /status names what is wrong"
            ]
        }
        let pauses = page.paused.prefix(5).map { name in
            "the worker at \(listen) has app \(printable(name, limit: 100)) paused: nothing of it is sent until its paused: true goes"
        }
        guard !page.problems.isEmpty || !pauses.isEmpty else { return ["the worker at \(listen) names no problem"] }
        return pauses
            + page.problems.prefix(5).map {
                "the worker at \(listen) says: \(printable($0.subject, limit: 256)): \(printable($0.text, limit: 512)); "
                    + printable($0.advice, limit: 512)
            }
    }

    /// Reads the page of the worker that listens there. Returns `nil` if no worker answers.
    private init?(_ listen: NetworkAddress) {
        guard let answer = Self.get("/status", of: listen),
            let body = answer.firstRange(of: Array("\r\n\r\n".utf8))?.upperBound
        else { return nil }
        let isRead = Array(answer[body...]).withUnsafeBytes { bytes in
            do throws(JSONError) {
                try read(JSONReader(bytes))
                return true
            } catch {
                return false
            }
        }
        guard isRead else { return nil }
    }

    private mutating func read(_ status: consuming JSONReader) throws(JSONError) {
        var reader = status
        try reader.enterObject()
        while let name = reader.nextMember() {
            if name.equals("group_id") {
                groupID = try reader.text().string
            } else if name.equals("problems") {
                try reader.enterArray()
                while reader.nextElement() { problems.append(try Self.problem(&reader)) }
            } else if name.equals("apps") {
                try reader.enterArray()
                while reader.nextElement() { if let name = try Self.pausedApp(&reader) { paused.append(name) } }
            } else {
                reader.skip()
            }
        }
    }

    /// The app's name if it is paused.
    private static func pausedApp(_ reader: inout JSONReader) throws(JSONError) -> String? {
        var app = ""
        var isPaused = false
        try reader.enterObject()
        while let name = reader.nextMember() {
            if name.equals("name") {
                app = try reader.text().string
            } else if name.equals("paused") {
                isPaused = try reader.bool()
            } else {
                reader.skip()
            }
        }
        return isPaused ? app : nil
    }

    private static func problem(_ reader: inout JSONReader) throws(JSONError) -> Problem {
        var problem = Problem()
        try reader.enterObject()
        while let name = reader.nextMember() {
            if name.equals("subject") {
                problem.subject = try reader.text().string
            } else if name.equals("text") {
                problem.text = try reader.text().string
            } else if name.equals("advice") {
                problem.advice = try reader.text().string
            } else {
                reader.skip()
            }
        }
        return problem
    }

    /// The whole answer, or `nil` if it did not come in time.
    private static func get(_ path: String, of listen: NetworkAddress) -> [UInt8]? {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var found: UnsafeMutablePointer<addrinfo>?
        // One that listens on all addresses is reached on the nearest.
        let host = listen.host == "0.0.0.0" ? "127.0.0.1" : listen.host == "::" ? "::1" : listen.host
        guard getaddrinfo(host, "\(listen.port)", &hints, &found) == 0, let address = found else { return nil }
        defer { freeaddrinfo(found) }
        let kind = address.pointee.ai_socktype | Int32(SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
        let descriptor = socket(address.pointee.ai_family, kind, 0)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        let deadline = Deadline(after: timeout)
        guard connect(descriptor, address.pointee.ai_addr, address.pointee.ai_addrlen) == 0 || errno == EINPROGRESS,
            deadline.awaits(POLLOUT, of: descriptor)
        else { return nil }
        // A new connection has room for all of it; one that was refused fails here.
        let request = Array("GET \(path) HTTP/1.1\r\nHost: \(listen)\r\nConnection: close\r\n\r\n".utf8)
        guard Glibc.send(descriptor, request, request.count, Int32(MSG_NOSIGNAL)) == request.count else {
            return nil
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while answer.count < limitBytes, deadline.awaits(POLLIN, of: descriptor) {
            let count = recv(descriptor, &buffer, buffer.count, 0)
            if count == 0 { return answer }
            if count < 0, errno == EAGAIN || errno == EINTR { continue }
            guard count > 0 else { return nil }
            answer += buffer[..<count]
        }
        return nil
    }
}
