import Delivery
import Foundation
import Network
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
    private let folder: TemporaryFolder

    /// Serves an empty file for each token in `known`, and 404 for others.
    init(known: [String], streams: Int) throws {
        folder = try TemporaryFolder()
        let devices = folder.path("www/3/device")
        try FileManager.default.createDirectory(atPath: devices, withIntermediateDirectories: true)
        for token in known { try folder.write("", "www/3/device/\(token)") }
        let issued = try ScriptedServer.authority.issueServer()
        let key = try folder.write(issued.keyPEM, "key.pem")
        let certificate = try folder.write(issued.certificatePEM, "cert.pem")
        port = UInt16(Ports.claim())
        process = try ChildProcess(
            Self.path!,
            ["-a", "127.0.0.1", "-m", "\(streams)", "-d", folder.path("www"), "\(port)", key, certificate])
    }

    deinit { try? process.killNow() }
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
        world.configuration.connections.target.port = server.port
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
