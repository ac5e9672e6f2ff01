import Delivery
import Foundation
import TLS
import TestSupport
import Testing

@testable import APNs

/// The server process of the nghttp2 project (nghttpd). It is killed when this object is deallocated.
final class Nghttpd {
    static let path = ["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    let port: UInt16
    private let process: ChildProcess
    private let directory: URL

    /// Serves an empty file for each token in `known`, and 404 for others.
    init(known: [String], streams: Int) throws {
        directory = FileManager.default.temporaryDirectory.appending(path: "apns-nghttpd-\(UUID().uuidString)")
        let devices = directory.appending(path: "www/3/device")
        try FileManager.default.createDirectory(at: devices, withIntermediateDirectories: true)
        for token in known { try Data().write(to: devices.appending(path: token)) }
        let issued = try ScriptedServer.authority.issueServer()
        let key = directory.appending(path: "key.pem")
        let certificate = directory.appending(path: "cert.pem")
        try Data(issued.keyPEM.utf8).write(to: key)
        try Data(issued.certificatePEM.utf8).write(to: certificate)
        port = UInt16(Ports.claim())
        process = try ChildProcess(
            Self.path!,
            [
                "-a", "127.0.0.1", "-m", "\(streams)", "-d", directory.appending(path: "www").path, "\(port)", key.path,
                certificate.path,
            ])
    }

    deinit {
        try? process.killNow()
        try? FileManager.default.removeItem(at: directory)
    }
}

/// Tests against an independent server implementation.
@Suite(.serialized, .enabled(if: Nghttpd.path != nil, "nghttpd is not installed (nghttp2-server)"))
struct ForeignServerTests {
    @Test(arguments: [true, false], [1, 100])
    func `An independent server answers known and unknown tokens`(indexAuthorization: Bool, streams: Int) throws {
        let total: UInt32 = streams == 1 ? 500 : 5_000
        let known = stride(from: 0, to: total, by: 2).map { World.token($0) }
        let server = try Nghttpd(known: known, streams: streams)
        let world = try World(over: .tls)
        world.configuration.port = server.port
        world.configuration.indexAuthorization = indexAuthorization
        try world.start()
        world.run("connected", seconds: 20) { world.capacity > 0 }
        var next: UInt32 = 0
        world.run("all completions", seconds: 60) {
            world.fill(&next, below: total, bodyBytes: 200)
            return world.completions.count == Int(total)
        }
        for number in 0..<total {
            #expect(world.completionOf[number]?.status == (number % 2 == 0 ? 200 : 404))
            #expect(world.completionOf[number]?.kind == .answered)
        }
        #expect(!world.notes.contains { if case .disconnected = $0 { true } else { false } })
        world.close()
    }
}
