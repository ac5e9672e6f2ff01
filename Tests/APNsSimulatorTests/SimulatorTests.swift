import EventLoop
import Foundation
import HTTP2
import Network
import PushRecords
import TLS
import TestSupport
import Testing

@testable import APNsSimulator

/// The simulator over real TLS and HTTP/2 connections within this process.
@Suite(.timeLimit(.minutes(5)))
struct SimulatorTests {
    private let folder: TemporaryFolder

    init() throws { folder = try TemporaryFolder() }

    @Test func `An accepted push is counted in the books`() throws {
        let (simulator, provider) = try Simulator.connected()
        let id = "123e4567-e89b-12d3-a456-42665544000a"
        #expect(try provider.answer(id: id) == .init(status: 200, id: id, uniqueID: "", body: ""))
        #expect(simulator.books.counts(ofToken: plainToken) == (1, 1))
        let totals = simulator.books.totals
        #expect(totals.requests == 2 && totals.accepted == 2 && totals.acceptedAgain == 0)
    }

    /// The client aioapns offers no ALPN, and APNs accepts it.
    @Test func `A client without ALPN is accepted`() throws {
        let simulator = try Simulator()
        let provider = try Provider(simulator, authorization: simulator.bearer(), alpn: [])
        #expect(provider.isReady())
        #expect(try provider.answer().status == 200)
    }

    @Test func `The ninth digit of a token limits how often its fault applies`() throws {
        let (simulator, provider) = try Simulator.connected()
        let flaky = token("fa1750002")
        #expect(try (1...4).map { _ in try provider.answer(token: flaky).status } == [500, 500, 200, 200])
        #expect(simulator.books.counts(ofToken: flaky) == (4, 2))
    }

    @Test func `A connection may open only one stream until it has sent a valid token`() throws {
        let simulator = try Simulator()
        let provider = try Provider(simulator, authorization: "bearer x")
        #expect(provider.isReady())
        #expect(provider.session.allowedStreams == 1)
        #expect(try provider.push(1))
        #expect(try !provider.push(2))
        #expect(provider.run { provider.responses[1] != nil })
        #expect(provider.responses[1]?.body == #"{"reason":"InvalidProviderToken"}"#)
        #expect(provider.session.allowedStreams == 1)
        provider.authorization = try simulator.bearer()
        // The token is valid, although the request is refused for another reason.
        #expect(try provider.answer(topic: nil).body == #"{"reason":"MissingTopic"}"#)
        #expect(provider.run { provider.session.allowedStreams == 1000 })
    }

    @Test func `A client certificate replaces the provider token`() throws {
        let simulator = try Simulator()
        let identity = try Identity(
            certificatePEM: simulator.credentials.clientCertificatePEM, keyPEM: simulator.credentials.clientKeyPEM)
        let provider = try Provider(simulator, identity: identity)
        #expect(provider.isReady())
        #expect(provider.session.allowedStreams == 1000)
        #expect(try provider.answer(topic: nil).status == 200)
        #expect(try provider.answer(topic: "com.example.other").body == #"{"reason":"TopicDisallowed"}"#)
    }

    @Test func `Generated apns-id values are distinct UUIDs in upper case`() throws {
        let (_, provider) = try Simulator.connected { $0.environment = .development }
        for user in 1...100 as ClosedRange<UInt32> { try provider.push(user) }
        #expect(provider.run { provider.responses.count == 101 })
        let ids = provider.responses.values.map(\.id)
        #expect(Set(ids).count == 101)
        #expect(ids.allSatisfy { UUID(uuidString: $0)?.uuidString == $0 })
        #expect(ids.allSatisfy { $0.dropFirst(14).first == "4" && "89AB".contains($0.dropFirst(19).first!) })
        // Only the development environment sends `apns-unique-id`.
        #expect(provider.responses.values.allSatisfy { UUID(uuidString: $0.uniqueID) != nil })
    }

    @Test func `Payloads up to 4096 bytes are accepted`() throws {
        let (_, provider) = try Simulator.connected()
        for user in 1...60 as ClosedRange<UInt32> { #expect(try provider.push(user, payload: payload(4096))) }
        #expect(try provider.push(61, payload: payload(4097)))
        #expect(try provider.push(62, payload: payload(40_000)))
        #expect(provider.run { provider.responses.count == 63 })
        #expect((1...60).allSatisfy { provider.responses[$0]?.status == 200 })
        #expect(provider.responses[61]?.body == #"{"reason":"PayloadTooLarge"}"#)
        #expect(provider.responses[62]?.status == 413)
    }

    @Test func `Latency changes the order of answers`() throws {
        let (simulator, provider) = try Simulator.connected { $0.latency = .fixed(ns: 30_000_000) }
        try provider.push(1, token: token("fa17d0200"))
        try provider.push(2)
        #expect(provider.run { provider.responses.count == 3 })
        #expect(provider.order.suffix(2) == [2, 1])
        simulator.switches.with { $0.service.options.latency = .uniform(fromNs: 1_000_000, toNs: 40_000_000) }
        for user in 10..<60 as Range<UInt32> { try provider.push(user) }
        #expect(provider.run { provider.responses.count == 53 })
        #expect(provider.order.suffix(50) != Array(10..<60), "The latency must change the order")
    }

    @Test func `A stopped simulator sends GOAWAY and closes its connections`() throws {
        let (simulator, provider) = try Simulator.connected()
        simulator.stop()
        #expect(provider.run { provider.end != nil })
        #expect(provider.end == .closedByPeer)
        #expect(provider.goAways.map(\.last) == [1])
    }

    @Test func `The error of a port in use names the port`() throws {
        let simulator = try Simulator()
        let error = #expect(throws: SimulatorError.self) { try Simulator.with { $0.port = simulator.port } }
        #expect(error?.description.contains("127.0.0.1:\(simulator.port)") == true)
        #expect(error?.description.contains("Address already in use") == true)
        let control = #expect(throws: SimulatorError.self) {
            try Simulator.with { $0.controlPort = simulator.controlPort }
        }
        #expect(control?.description.contains("control endpoint: cannot listen on") == true)
    }

    @Test func `Simulators that start at the same time create and keep one set of credentials`() async throws {
        let directory = folder.path
        let made = try await withThrowingTaskGroup(of: [String].self) { group in
            for _ in 0..<4 {
                group.addTask {
                    let made = try SimulatorCredentials(directory: directory)
                    return [made.caPEM, made.providerKeyPEM, made.clientCertificatePEM]
                }
            }
            return try await group.reduce(into: Set<[String]>()) { $0.insert($1) }
        }
        let kept = try SimulatorCredentials(directory: directory)
        #expect(made == [[kept.caPEM, kept.providerKeyPEM, kept.clientCertificatePEM]])
        let names = try FileManager.default.contentsOfDirectory(atPath: directory).sorted()
        #expect(names == ["AuthKey_SIMULATOR1.p8", "ca-key.pem", "ca.pem", "client-key.pem", "client.pem"])
        let mode = try FileManager.default.attributesOfItem(atPath: kept.providerKeyFile!)[.posixPermissions]
        #expect((mode as? NSNumber)?.intValue == 0o600)
        try folder.write("nonsense", "ca.pem")
        let error = #expect(throws: SimulatorError.self) { try SimulatorCredentials(directory: directory) }
        #expect(error?.description.contains(directory) == true)
    }

    /// Users copy the configuration into files in any directory, and relative paths start at the file's directory.
    @Test func `The printed instructions contain absolute paths and all ports`() throws {
        let directory = folder.path
        let here = FileManager.default.currentDirectoryPath
        let up = here.split(separator: "/").map { _ in ".." }.joined(separator: "/")
        let simulator = try Simulator.with {
            $0.directory = up.isEmpty ? String(directory.dropFirst()) : up + directory
            ($0.gatewayPort, $0.feedbackPort) = (0, 0)
        }
        defer { simulator.stop() }
        #expect(simulator.instructions.contains("binary gateway on 127.0.0.1:\(simulator.gatewayPort!)\n"))
        #expect(simulator.instructions.contains("feedback service on 127.0.0.1:\(simulator.feedbackPort!)\n"))
        let root = URL(filePath: directory).resolvingSymlinksInPath().path
        #expect(simulator.instructions.contains("tls: {ca_file: \(root)/ca.pem}"))
        #expect(simulator.instructions.contains("token: {key_file: \(root)/AuthKey_SIMULATOR1.p8,"))
        #expect(!simulator.instructions.contains(".."))
    }

    @Test func `A public key file that the user configures is accepted`() throws {
        let maker = try TokenMaker()
        let path = try folder.write(maker.key.verificationKey.pem, "key.pem")
        let simulator = try Simulator.with { $0.keys = [("OWNKEY1234", path)] }
        var mine = maker
        mine.keyID = "OWNKEY1234"
        mine.teamID = "OWNTEAM123"
        let provider = try Provider(simulator, authorization: mine.bearer(issuedAt: LoopTime.read().wallMs / 1000))
        try provider.openAllStreams()
        let error = #expect(throws: SimulatorError.self) {
            try Simulator.with { $0.keys = [("OWNKEY1234", path + ".missing")] }
        }
        #expect(error?.description.contains(path + ".missing") == true)
    }
}
