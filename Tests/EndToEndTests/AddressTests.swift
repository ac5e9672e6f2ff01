import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// Which address of a name is taken: IPv6, IPv4, and a name of which one address is dead. The names are in a file that takes the place of /etc/hosts for the worker alone, in a mount namespace.
    @Suite(.serialized) struct AddressTests {
        private static let token = String(repeating: "80fe", count: 16)

        struct Case: Sendable, CustomTestStringConvertible {
            var listening: String
            /// In the order of the file.
            var hosts: [String]
            var dead: String?

            var testDescription: String { "\(hosts)\(dead.map { ", \($0) is dead" } ?? "")" }
        }

        static let cases = [
            Case(listening: "::1", hosts: ["::1"]), Case(listening: "127.0.0.1", hosts: ["127.0.0.1"]),
            // Nothing listens there.
            Case(listening: "127.0.0.1", hosts: ["::1", "127.0.0.1"]),
            // Nothing answers there: the worker goes on to the next one after 250 ms (RFC 8305).
            Case(listening: "127.0.0.1", hosts: ["::1", "127.0.0.1"], dead: "::1"),
            Case(listening: "::1", hosts: ["127.0.0.1", "::1"], dead: "127.0.0.1"),
            Case(listening: "127.0.0.9", hosts: ["127.0.0.9", "127.0.0.1"], dead: "127.0.0.1"),
        ]

        @Test(
            .needs(.worker), .enabled(if: canUnshare, "needs a mount namespace of its own: root"),
            .timeLimit(.minutes(2)), arguments: cases)
        func `the address of a name that answers is found`(_ it: Case) throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("address"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let dead = try it.dead.map { try DeadListener($0) }
            defer { withExtendedLifetime(dead) {} }
            let port = dead?.port ?? KafkaBroker.freePorts(1)[0]
            let listening = it.listening.contains(":") ? "[\(it.listening)]" : it.listening
            let simulator = try ChildProcess(
                Tool.worker.path(),
                [
                    "simulate", "--listen", "\(listening):\(port)", "--control", "0", "--directory", folder.path,
                    "--name", "push.test",
                ])
            try simulator.waitFor("listening;", seconds: 20)
            let hosts = folder.appending(path: "hosts").path
            try it.hosts.map { "\($0) push.test\n" }.joined().write(toFile: hosts, atomically: true, encoding: .utf8)
            var configuration = Configuration(servers: "127.0.0.1:1", name: "address")
            configuration.host = "push.test"
            configuration.port = port
            let file = folder.appending(path: "worker.yaml").path
            try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
            let ended = try Scene.run(
                "unshare",
                [
                    "--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"", hosts, Tool.worker.path(),
                    "send", "--direct", "-c", file, "-t", Self.token, "-a", "Hi",
                ])
            #expect(ended.ending == .exited(0) && ended.text.contains(" accepted     200 "), "\(ended.text)")
            try simulator.stop()
        }

        private static let canUnshare: Bool = {
            let ended = try? Scene.run(
                "unshare", ["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"], within: 10)
            return ended?.ending == .exited(0)
        }()
    }
}
