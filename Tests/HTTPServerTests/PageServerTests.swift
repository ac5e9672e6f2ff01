import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import HTTPServer

/// An HTTP answer, as curl receives it.
struct Curl {
    static let path = "/usr/bin/curl"
    static let isThere = FileManager.default.isExecutableFile(atPath: path)

    var status: Int
    var body: String
    /// curl's exit code is 0, or 18 for a body cut off.
    var ending: ChildProcess.Ending

    init(_ arguments: String..., port: UInt16, page: String) throws {
        let (options, url) = (["-s", "--max-time", "20", "-w", "\n%{http_code}"], "http://127.0.0.1:\(port)\(page)")
        let ended = try ChildProcess.run(Curl.path, options + arguments + [url])
        let cut = ended.text.lastIndex(of: "\n")!
        status = Int(ended.text[ended.text.index(after: cut)...]) ?? 0
        body = String(ended.text[..<cut])
        ending = ended.ending
    }
}

@Suite(.enabled(if: Curl.isThere, "needs \(Curl.path)"), .timeLimit(.minutes(5)))
struct PageServerTests {
    let server: PageServer

    init() throws {
        server = try PageServer(
            routes: [
                Route(.get, "/") { _ in .text("home\n") },
                Route(.get, "/echo") { request in
                    .text(request.parameters.map { "\($0.name)=\($0.value);" }.joined())
                },
                Route(.post, "/echo") { request in
                    .text("got \(request.body.count): " + String(decoding: request.body, as: UTF8.self))
                },
                Route(.get, "/accept") { .text("\($0.accept)\n") },
                Route(.get, "/lines") { _ in PageServerTests.lines(100_000, failing: false) },
                Route(.get, "/broken") { _ in PageServerTests.lines(100_000, failing: true) },
            ])
    }

    @Test(arguments: [
        ("/", "GET", 200, "home\n"), ("/echo?b=1%202&a=x&flag&a=%26", "GET", 200, "b=1 2;a=x;flag=;a=&;"),
        ("/accept", "GET", 200, "*/*\n"), ("/nowhere", "GET", 404, "no such page: /nowhere\n"),
        ("/", "POST", 405, "/ accepts only GET\n"),
        ("/echo", "DELETE", 405, "/echo accepts only GET, POST\n"), ("/x", "PUT", 404, "no such page: /x\n"),
    ])
    func `Path and method select a route, and parameters are decoded in their order`(
        page: String, method: String, status: Int, body: String
    ) throws {
        let answer = try Curl("-X", method, port: server.port, page: page)
        #expect(answer.status == status && answer.body == body)
    }

    @Test func `HEAD has no body`() throws {
        let answer = try Curl("-I", port: server.port, page: "/")
        #expect(answer.status == 200 && answer.body.contains("Content-Length: 5") && !answer.body.contains("home"))
    }

    @Test(arguments: [(65_536, 200), (65_537, 413), (100_000, 413)])
    func `A posted body within the limit arrives whole, and a larger body is answered with 413`(count: Int, status: Int)
        throws
    {
        let text = String(repeating: "x", count: count)
        let answer = try Curl("--data-binary", text, port: server.port, page: "/echo")
        #expect(answer.status == status)
        if status == 200 { #expect(answer.body == "got \(count): " + text) }
    }

    @Test func `A long body is streamed`() throws {
        let answer = try Curl(port: server.port, page: "/lines")
        #expect(answer.ending == .exited(0))
        #expect(answer.body.split(separator: "\n").count == 100_000)
        #expect(answer.body.hasSuffix("line 99999\n"))
    }

    @Test func `The client can detect that a stream failed`() throws {
        let answer = try Curl(port: server.port, page: "/broken")
        #expect(answer.ending != .exited(0))
    }

    @Test func `A port in use is refused with its address`() throws {
        let taken = server.port
        let error = #expect(throws: PageServerError.self) { try PageServer(port: taken, routes: []) }
        #expect(error?.description == "cannot listen on 127.0.0.1:\(taken): Address already in use (EADDRINUSE)")
    }

    @Test func `An address that cannot be bound is refused`() {
        let error = #expect(throws: PageServerError.self) { try PageServer(host: "nowhere.example", routes: []) }
        #expect(error?.description.contains("nowhere.example:0: Cannot assign requested address") == true)
    }

    @Test func `Stopping closes the port at once and can be repeated`() throws {
        server.stop()
        server.stop()
        let answer = try Curl(port: server.port, page: "/")
        #expect(answer.ending == .exited(7), "connection refused")
        let again = try PageServer(port: server.port, routes: [Route(.get, "/") { _ in .text("again") }])
        #expect(try Curl(port: again.port, page: "/").body == "again")
    }

    /// CPU time in milliseconds, of the process or of this thread.
    private static func cpu(_ clock: clockid_t) -> Int {
        var time = timespec()
        clock_gettime(clock, &time)
        return time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
    }

    @Test(arguments: [(2, 129), (1, 127)] as [(UInt32, Int)])
    func `Slow clients of another address, and up to 127 of the same one, do not delay other clients`(
        from address: UInt32, count: Int
    ) throws {
        let slow = (0..<count).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }
        defer { for client in slow { close(client) } }
        for client in slow { #expect(LocalHTTP.connect(client, from: address, to: server.port)) }
        #expect(try Curl(port: server.port, page: "/").body == "home\n")
    }

    @Test(arguments: [
        ("127.0.0.1:9464", 200), ("[::1]:9464", 200), ("::1", 403), ("LocalHost", 200), ("localhost:9464", 200),
        ("evil.example", 403), ("localhost.evil.example:9464", 403), ("", 403),
    ])
    func `A server on a loopback address refuses other host names`(host: String, status: Int) throws {
        #expect(try Curl("-H", host.isEmpty ? "Host;" : "Host: \(host)", port: server.port, page: "/").status == status)
    }

    @Test func `A server on other addresses accepts each host name`() throws {
        let server = try PageServer(host: "0.0.0.0", routes: [Route(.get, "/") { _ in .text("home\n") }])
        #expect(try Curl("-H", "Host: worker-0:9464", port: server.port, page: "/").status == 200)
    }

    @Test func `A server without a free descriptor waits without using the CPU`() async {
        await #expect(processExitsWith: .success) {
            let server = try PageServer(routes: [])
            let client = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            // All descriptors below it are in use.
            var limit = rlimit(rlim_cur: rlim_t(client) + 1, rlim_max: rlim_t(client) + 1)
            setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            #expect(LocalHTTP.connect(client, to: server.port))
            // A busy server thread would use about as much CPU time as this thread.
            func others() -> Int {
                PageServerTests.cpu(CLOCK_PROCESS_CPUTIME_ID) - PageServerTests.cpu(CLOCK_THREAD_CPUTIME_ID)
            }
            let (before, began) = (others(), PageServerTests.cpu(CLOCK_THREAD_CPUTIME_ID))
            while PageServerTests.cpu(CLOCK_THREAD_CPUTIME_ID) - began < 500 {}
            exit(others() - before < 100 ? 0 : 1)
        }
    }

    static func lines(_ count: Int, failing: Bool) -> HTTPResponse {
        let next = Mutex(0)
        return HTTPResponse(
            contentType: "text/plain",
            body: .stream { room in
                next.withLock { next in
                    if next == count { return .end }
                    if failing, next > count / 2 { return .failed }
                    var used = 0
                    while next < count {
                        let line = Array("line \(next)\n".utf8)
                        if used + line.count > room.count { break }
                        UnsafeMutableRawBufferPointer(rebasing: room[used...]).copyBytes(from: line)
                        used += line.count
                        next += 1
                    }
                    return .wrote(used)
                }
            })
    }
}
