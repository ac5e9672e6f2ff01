import Delivery
import EventLoop
import Foundation
import Observability
import TLS
import TestSupport
import Testing

@testable import Configuration
@testable import Worker

extension PushWorker {
    /// Checks for changed files and waits until they are read.
    fileprivate func look() {
        files.checkFiles()
        finishReading()
    }

    /// Reloads the configuration from a file that is not watched.
    fileprivate func reloadNow(_ file: String) {
        files.source = ConfigurationSource(file: nil) { () throws(ConfigurationError) in
            try WorkerConfiguration.load(file: file)
        }
        files.reload()
        finishReading()
    }

    fileprivate func finishReading() {
        while files.isReading { loop.runOnce(timeoutNs: 100_000_000) }
    }
}

@Suite struct CredentialWatchTests {
    @Test func `A key replaced between reading and watching is read again`() throws {
        let scene = try Scene(watches: false)
        let worker = scene.worker
        let first = worker.apps[0].publicKey
        func replaceKey() throws { try scene.folder.write(SelfSigned.privateKey(), "key.p8") }
        try replaceKey()
        worker.files.watch()
        worker.look()
        let second = worker.apps[0].publicKey
        #expect(second != first)
        // A reload changes the key only after its file was replaced again.
        scene.reload()
        #expect(worker.apps[0].publicKey == second)
        try replaceKey()
        scene.reload()
        #expect(worker.apps[0].publicKey != second)
    }

    /// A worker with one app, and a folder with its files.
    private final class Scene {
        let folder: TemporaryFolder
        let log = MemorySink()
        let worker: PushWorker
        let key: String
        let authority: String
        let file: String

        init(watches: Bool = true) throws {
            folder = try TemporaryFolder()
            key = try folder.write(try SelfSigned.privateKey(), "key.p8")
            let issued = try CertificateAuthority().issueClient(bundleID: "com.example.shop")
            authority = try folder.write(issued.certificatePEM, "ca.pem")
            file = try folder.write(
                """
                kafka: {bootstrap_servers: "kafka:9092"}
                apps:
                  - name: shop
                    bundle_ids: [com.example.shop]
                    environment: production
                    token: {key_file: key.p8, key_id: KEYKEYKEY1, team_id: TEAMTEAM12}
                    tls: {ca_file: ca.pem}

                """, "worker.yaml")
            let configuration = try WorkerConfiguration.load(file: file).configuration
            worker = try PushWorker(configuration, logger: Logger(sink: log.write))
            if watches { worker.files.watch() }
        }

        func reload() { worker.reloadNow(file) }

        static func pipe(_ path: String) throws { try #require(mkfifo(path, 0o600) == 0) }
    }

    @Test func `A changed configuration is applied once it is complete and each file is there`() throws {
        let scene = try Scene(watches: false)
        let (file, files) = (scene.file, scene.worker.files)
        let text = try String(contentsOfFile: file, encoding: .utf8)
        files.source = ConfigurationSource(file: file) { () throws(ConfigurationError) in
            try WorkerConfiguration.load(file: file)
        }
        files.watch()
        func names() -> [String] { scene.worker.apps.living.map { scene.worker.apps.rows[$0].name } }
        func write(_ text: String) throws { try scene.folder.write(text, "worker.yaml") }
        let second = text.split(separator: "\n").dropFirst(2).joined(separator: "\n").replacing("shop", with: "news")
        // The file is seen once while it lacks its second half.
        for more in [second, ""] {
            try write(text + more)
            scene.worker.look()
            #expect(names() == ["shop"])
        }
        try write(text + second)
        for _ in 0..<2 { scene.worker.look() }
        #expect(names() == ["shop", "news"])

        try write((text + second).replacing("key.p8", with: "late.p8"))
        for _ in 0..<2 { scene.worker.look() }
        #expect(files.faults().map(\.subject) == [.configuration])
        try FileManager.default.copyItem(atPath: scene.key, toPath: scene.key.replacing("key.p8", with: "late.p8"))
        scene.worker.look()
        #expect(files.faults().isEmpty)
    }

    @Test func `A changed setting that needs a restart is reported until its previous value is back`() throws {
        let scene = try Scene()
        let text = try String(contentsOfFile: scene.file, encoding: .utf8)
        try scene.folder.write(text + "drain: {shutdown: 20s}\n", "worker.yaml")
        scene.reload()
        let fault = try #require(scene.worker.files.faults().first)
        #expect(fault.subject == .configuration && fault.kind == .restartNeeded)
        #expect(fault.text.hasSuffix(": drain.shutdown"))
        try scene.folder.write(text, "worker.yaml")
        scene.reload()
        #expect(scene.worker.files.faults().isEmpty)
    }

    @Test func `A removed credential file is reported until it is there again`() throws {
        let scene = try Scene()
        let files = scene.worker.files
        let identity = try #require(scene.worker.apps[0].publicKey)
        for path in [scene.key, scene.authority] {
            try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
            // The second check finds no further change.
            for _ in 0..<2 {
                scene.worker.look()
                let fault = try #require(files.faults().first)
                #expect(fault.subject == .app("shop") && fault.kind == .refused, "\(fault)")
                #expect(fault.text.contains(path) && fault.text.contains("No such file"), "\(fault.text)")
                #expect(scene.worker.apps[0].publicKey == identity, "the credential in use stays")
            }
            try FileManager.default.moveItem(atPath: path + ".old", toPath: path)
            scene.worker.look()
            #expect(files.faults().isEmpty && scene.worker.apps[0].publicKey == identity)
        }
        #expect(!scene.log.lines.contains { $0.contains("credential reloaded") }, "the connections stay")
    }

    /// A blocking open of a pipe would stop the core until the pipe has a writer.
    @Test(.timeLimit(.minutes(5)))
    func `A path that is not a regular file is reported until a regular file replaces it`() throws {
        let scene = try Scene()
        let files = scene.worker.files
        let identity = try #require(scene.worker.apps[0].publicKey)
        let cases: [(path: String, subject: Problem.Subject, make: (String) throws -> Void)] = [
            (scene.key, .app("shop"), Scene.pipe), (scene.authority, .app("shop"), Scene.pipe),
            (scene.file, .configuration, Scene.pipe), (scene.file, .configuration, { symlink("/dev/zero", $0) }),
            (
                scene.file, .configuration,
                { try FileManager.default.createDirectory(atPath: $0, withIntermediateDirectories: false) }
            ),
        ]
        for (path, subject, make) in cases {
            func look() { if subject == .configuration { scene.reload() } else { scene.worker.look() } }
            try FileManager.default.moveItem(atPath: path, toPath: path + ".old")
            try make(path)
            look()
            let fault = try #require(files.faults().first)
            #expect(fault.subject == subject && fault.kind == .refused)
            let name = URL(filePath: path).lastPathComponent
            #expect(fault.text.contains(name) && fault.text.contains("it is not a regular file"), "\(fault.text)")
            #expect(scene.worker.apps[0].publicKey == identity, "the credential or configuration in use stays")
            try FileManager.default.removeItem(atPath: path)
            try FileManager.default.moveItem(atPath: path + ".old", toPath: path)
            // The restored file is the credential in use, so only the problem ends.
            look()
            #expect(files.faults().isEmpty && scene.worker.apps[0].publicKey == identity)
        }
        // A link to a regular file is accepted.
        try FileManager.default.moveItem(atPath: scene.file, toPath: scene.file + ".real")
        symlink("worker.yaml.real", scene.file)
        scene.reload()
        #expect(files.faults().isEmpty)
        // A reload keeps the key in use while its file is a pipe. A key that replaces the pipe is loaded.
        try FileManager.default.removeItem(atPath: scene.key)
        try Scene.pipe(scene.key)
        scene.worker.look()
        scene.reload()
        #expect(files.faults().map(\.subject) == [.app("shop")])
        try FileManager.default.removeItem(atPath: scene.key)
        try scene.folder.write(SelfSigned.privateKey(), "key.p8")
        scene.worker.look()
        #expect(scene.worker.apps[0].publicKey != identity && files.faults().isEmpty)
    }

    @Test(.timeLimit(.minutes(5)))
    func `An app with an unusable key does not stop other apps from starting, and works once its file is valid`() throws
    {
        let scene = try Scene()
        func configure(_ keys: [String]) throws {
            let apps = keys.enumerated().map { number, key in
                "  - {name: app\(number), bundle_ids: [com.example.app\(number)], environment: production, "
                    + "token: {key_file: \(key), key_id: KEYKEYKEY1, team_id: TEAMTEAM12}}\n"
            }
            try "kafka: {bootstrap_servers: \"kafka:9092\"}\napps:\n\(apps.joined())"
                .write(toFile: scene.file, atomically: true, encoding: .utf8)
        }
        func start() throws -> PushWorker {
            let configuration = try WorkerConfiguration.load(file: scene.file).configuration
            let worker = try PushWorker(configuration, logger: Logger(sink: MemorySink().write))
            worker.files.watch()
            return worker
        }
        func write(_ text: String, to name: String) throws { try scene.folder.write(text, name) }
        try write("garbage", to: "damaged.p8")
        try configure(["missing.p8", "damaged.p8"])
        #expect(throws: StartFailure.self, "no app can send") { _ = try start() }

        try configure(["key.p8", "missing.p8", "damaged.p8"])
        let worker = try start()
        func unusable() -> [Problem.Subject] {
            worker.files.faults().filter { $0.kind == .credentialUnusable }.map(\.subject)
        }
        worker.look()
        #expect(unusable() == [.app("app1"), .app("app2")] && worker.apps[0].publicKey != nil)
        #expect(worker.files.faults().allSatisfy { !$0.text.contains("app app") }, "the subject names the app")
        try write(try SelfSigned.privateKey(), to: "missing.p8")
        worker.look()
        #expect(unusable() == [.app("app2")] && worker.apps[1].publicKey != nil)

        // A reload may add an app with an unusable key, but must not replace a key in use with an unusable one.
        func reload() { worker.reloadNow(scene.file) }
        try write(try SelfSigned.privateKey(), to: "damaged.p8")
        try configure(["key.p8", "missing.p8", "damaged.p8", "later.p8"])
        reload()
        #expect(unusable() == [.app("app3")] && worker.apps[2].publicKey != nil)
        try configure(["gone.p8", "missing.p8", "damaged.p8", "later.p8"])
        reload()
        #expect(worker.files.faults().map(\.subject) == [.configuration, .app("app3")])
    }

    /// The read blocks, as on a network file system that does not answer.
    @Test(.timeLimit(.minutes(5)))
    func `A configuration read that blocks delays nothing else, and the last requested reload takes effect`() throws {
        let scene = try Scene()
        let worker = scene.worker
        let file = scene.file
        let (began, gate) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        worker.files.source = ConfigurationSource(file: nil) { () throws(ConfigurationError) in
            let loaded = try WorkerConfiguration.load(file: file)
            began.signal()
            // Later reads find the signal of the first one.
            gate.wait()
            gate.signal()
            return loaded
        }
        worker.files.reload()
        began.wait()
        #expect(
            worker.files.faults().isEmpty && worker.apps.all.count == 1, "the credential or configuration in use stays")

        // Changes of other files are loaded in the meantime.
        let identity = worker.apps[0].publicKey
        try SelfSigned.privateKey().write(toFile: scene.key, atomically: true, encoding: .utf8)
        worker.files.checkFiles()
        while worker.apps[0].publicKey == identity { worker.loop.runOnce(timeoutNs: 10_000_000) }

        // Two reloads are requested while the read blocks: only the file's last content counts.
        let text = try String(contentsOfFile: file, encoding: .utf8)
        for paused in [false, true] {
            try (text + "    paused: \(paused)\n").write(toFile: file, atomically: true, encoding: .utf8)
            worker.files.reload()
        }
        #expect(!worker.apps[0].settings.isPaused)
        gate.signal()
        worker.finishReading()
        #expect(worker.apps[0].settings.isPaused)
    }
}

extension LoadedApp {
    fileprivate var publicKey: String? { signingKey?.verificationKey.pem }
}
