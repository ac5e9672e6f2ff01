import EventLoop
import Foundation
import Observability
import TLS
import Testing

@testable import Configuration
@testable import Worker

@Suite struct CredentialWatchTests {
    /// What was loaded is what a file is compared with, however early it was replaced.
    @Test func `A key replaced between reading and watching is read again`() throws {
        let file = FileManager.default.temporaryDirectory.appending(path: "key-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: file) }
        func write(_ text: String) throws { try Data(text.utf8).write(to: file) }
        try write(SelfSigned.privateKey())
        let token = TokenCredential(key: .file(file.path), keyID: "KEYKEYKEY1", teamID: "TEAMTEAM12")
        let settings = AppSettings(name: "shop", bundleIDs: ["com.example.shop"], credential: .token(token))
        let configuration = WorkerConfiguration(kafka: KafkaSettings(bootstrapServers: "kafka:9092"), apps: [settings])
        let worker = try PushWorker(
            configuration, logger: Logger(levels: configuration.log.levels, format: configuration.log.format))
        let first = worker.apps[0].tokenIdentity

        try write(SelfSigned.privateKey())
        worker.watchFiles()
        worker.fileWatch?.look()
        let second = worker.apps[0].tokenIdentity
        #expect(second != first)

        // A reload that finds the file as it was read changes nothing; one after it was replaced again does.
        func reread() throws(ConfigurationError) -> LoadedConfiguration {
            LoadedConfiguration(configuration: configuration, warnings: [])
        }
        worker.reload(reread)
        #expect(worker.apps[0].tokenIdentity == second)
        try write(SelfSigned.privateKey())
        worker.reload(reread)
        #expect(worker.apps[0].tokenIdentity != second)
    }
}
