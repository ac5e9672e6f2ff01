import APNsSimulator
@testable import Configuration
import Delivery
import Foundation
import Network
import PushRecords
import TLS
import TestSupport
import Testing

@testable import Worker

/// Sends with each kind of credential to the simulator, which checks credentials as APNs does.
@Suite(.serialized) struct AppTransportTests {
    private static func credential(_ path: String, _ keyID: String) -> AppSettings.Credential {
        .token(TokenCredential(key: .file(path), keyID: keyID, teamID: SimulatorCredentials.teamID))
    }

    @Test func `A token app and a certificate app send side by side`() throws {
        let scene = try SimulatorScene()
        let transports = try scene.start([try scene.tokenApp("token"), try scene.certificateApp("certificate")])
        try scene.expectAnswers(transports, app: 0, count: 50)
        try scene.expectAnswers(transports, app: 1, count: 50)
        #expect(scene.completions.values.flatMap(\.self).allSatisfy { $0.status == 200 })
        #expect(scene.renewals == 1, "only the token app has a token")
    }

    @Test func `An app can switch to the binary protocol and back`() throws {
        let scene = try SimulatorScene { $0.gatewayPort = 0 }
        let http2 = try scene.certificateApp("app")
        let transports = try scene.start([http2])
        func lastAnswers() -> ArraySlice<Completion> {
            scene.completions[0, default: []].filter { $0.kind == .answered }.suffix(5)
        }
        try scene.expectAnswers(transports, app: 0, count: 5)
        var binary = http2
        binary.port = Int(try #require(scene.simulator.gatewayPort))
        binary.binary = BinarySettings()
        binary.binary?.window.duration = .milliseconds(50)
        transports.replace(AppIndex(0), with: try LoadedApp(binary))
        try scene.pump(transports, app: 0, count: 5) { _ in }
        #expect(lastAnswers().allSatisfy { $0.status == 200 && $0.isPresumed })
        transports.replace(AppIndex(0), with: try LoadedApp(http2))
        try scene.pump(transports, app: 0, count: 5) { _ in }
        #expect(lastAnswers().allSatisfy { $0.status == 200 && !$0.isPresumed })
        // No server listens at port 1, so the capacity of the old host no longer counts.
        binary.port = 1
        transports.replace(AppIndex(0), with: try LoadedApp(binary))
        scene.run("no room") { scene.capacity[0] == 0 && scene.reachable[0]?.last == false }
    }

    @Test func `A change of protocol clears the report that the host is unreachable`() throws {
        let scene = try SimulatorScene { $0.gatewayPort = 0 }
        var app = try scene.certificateApp("app")
        app.port = 1
        let transports = try scene.start([app])
        scene.run("refused") { scene.reachable[0] == [false] }
        app.port = Int(try #require(scene.simulator.gatewayPort))
        app.binary = BinarySettings()
        app.binary?.window.duration = .milliseconds(50)
        app.connections.min = 0
        transports.replace(AppIndex(0), with: try LoadedApp(app))
        // Without a minimum of connections, the transport dials only when there is something to send.
        scene.run("room") { scene.capacity[0, default: 0] > 0 }
        #expect(scene.reachable[0] == [false, true])
        try scene.pump(transports, app: 0, count: 1) { _ in }
        #expect(scene.reachable[0]?.last == true)
    }

    @Test func `A replaced key is used on new connections only`() throws {
        let folder = try TemporaryFolder()
        let (old, new) = (try SelfSigned.privateKey(), try SelfSigned.privateKey())
        let (oldKey, newKey) = (try folder.write(old, "old.p8"), try folder.write(new, "new.p8"))
        let scene = try SimulatorScene {
            $0.keys = [("FIRSTKEY12", oldKey), ("NEXTKEY123", newKey)]
        }
        var app = try scene.tokenApp("shop")
        app.credential = Self.credential(oldKey, "FIRSTKEY12")
        let transports = try scene.start([app])
        try scene.expectAnswers(transports, app: 0, count: 10)
        app.credential = Self.credential(newKey, "NEXTKEY123")
        transports.replace(AppIndex(0), with: try LoadedApp(app))
        try scene.expectAnswers(transports, app: 0, count: 10)
        // On one connection the second key would be answered by UnrelatedKeyIdInToken.
        #expect(scene.completions[0]?.count == 20 && scene.completions[0]?.allSatisfy { $0.status == 200 } == true)
        #expect(scene.connected == 2)
        // The app returns to its first key.
        app.credential = Self.credential(oldKey, "FIRSTKEY12")
        transports.replace(AppIndex(0), with: try LoadedApp(app))
        try scene.expectAnswers(transports, app: 0, count: 10)
        #expect(scene.completions[0]?.count == 30 && scene.completions[0]?.allSatisfy { $0.status == 200 } == true)
        #expect(scene.renewals == 3)
    }

    @Test func `Replacing credentials under load loses no notification and sends none twice`() throws {
        let scene = try SimulatorScene { $0.latency = .uniform(fromNs: 1_000_000, toNs: 20_000_000) }
        let (token, certificate) = (try scene.tokenApp("shop"), try scene.certificateApp("shop"))
        let transports = try scene.start([token])
        var replaced = 0
        try scene.pump(transports, app: 0, count: 20_000) { answered in
            guard answered / 2_000 > replaced else { return }
            replaced += 1
            transports.replace(AppIndex(0), with: try LoadedApp(replaced % 2 == 1 ? certificate : token))
        }
        #expect(replaced == 10)
        let totals = scene.simulator.books.totals
        #expect(totals.acceptedDistinct == 20_000)
        #expect(totals.acceptedAgain == 0)
        #expect(totals.refused == 0)
        #expect(totals.connections >= 10)
    }

    @Test func `An app added later has the next index`() throws {
        let scene = try SimulatorScene()
        let transports = try scene.start([try scene.tokenApp("first")])
        #expect(transports.add(try LoadedApp(try scene.certificateApp("second"))) == AppIndex(1))
        #expect(transports.add(try LoadedApp(try scene.tokenApp("third"))) == AppIndex(2))
        for app in [2, 1, 0] { try scene.expectAnswers(transports, app: app, count: 5) }
        #expect(scene.completions.values.flatMap(\.self).allSatisfy { $0.status == 200 })
        #expect(Set(scene.completions.keys) == [0, 1, 2])
    }

    @Test func `An app without a usable credential is unreachable until it has one`() throws {
        let scene = try SimulatorScene()
        var app = try scene.tokenApp("shop")
        let credential = app.credential
        app.credential = Self.credential("/nowhere/key.p8", SimulatorCredentials.keyID)
        let transports = try scene.start([app, try scene.certificateApp("other")], allowingFaults: true)
        scene.run("out of reach") { scene.reachable[0] == [false] }
        try scene.expectAnswers(transports, app: 1, count: 5)
        app.credential = credential
        transports.replace(AppIndex(0), with: try LoadedApp(app))
        try scene.expectAnswers(transports, app: 0, count: 5)
        #expect(scene.reachable[0]?.last == true)
    }

    @Test func `The system's certificate authorities are read again after their file was replaced`() async {
        await #expect(processExitsWith: .success) {
            let folder = try TemporaryFolder()
            setenv("SSL_CERT_FILE", try folder.write("", "bundle.pem"), 1)
            setenv("SSL_CERT_DIR", "/nowhere", 1)
            let scene = try SimulatorScene()
            var app = try scene.tokenApp("shop")
            app.authorities = nil
            let transports = try scene.start([app])
            scene.run("a warning") { scene.warnings.count == 1 && scene.reachable[0] == [false] }
            #expect(scene.warnings[0].contains("there is no CA certificate in"))
            _ = try folder.write(scene.simulator.credentials.caPEM, "bundle.pem")
            transports.replace(AppIndex(0), with: try LoadedApp(app))
            try scene.expectAnswers(transports, app: 0, count: 1)
        }
    }

    @Test func `The worker warns at its start about a certificate's topics and expiry`() throws {
        let scene = try SimulatorScene()
        var app = try scene.certificateApp("shop", validForDays: 12)
        app.bundleIDs = ["com.example.other"]
        _ = try scene.start([app])
        scene.run("two warnings") { scene.warnings.count == 2 }
        #expect(
            scene.warnings.first == "app shop: the certificate in certificate.pem is for com.example.app, not for "
                + "com.example.other (bundle_ids)")
        #expect(scene.warnings.last?.hasSuffix(", in 11 days") == true)
    }

    /// No server listens at port 1.
    @Test(arguments: [{ $0.port = 1 }, { $0.proxy = ProxySettings(host: "127.0.0.1", port: 1) }] as [Edit])
    func `A transport reports each change of reachability once, also through a proxy`(edit: Edit) throws {
        let scene = try SimulatorScene()
        var app = try scene.tokenApp("shop")
        edit(&app)
        let transports = try scene.start([app])
        scene.run("refused") { scene.reachable[0] == [false] }
        transports.replace(AppIndex(0), with: try LoadedApp(try scene.tokenApp("shop")))
        try scene.expectAnswers(transports, app: 0, count: 1)
        #expect(scene.reachable[0] == [false, true])
    }

    typealias Edit = @Sendable (inout AppSettings) -> Void
}
