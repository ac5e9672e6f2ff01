import Foundation
import TestSupport
import Testing

extension EndToEnd.Starts {
    /// The choice between a name's addresses. The names are in a file that replaces /etc/hosts for the worker alone, in
    /// a mount namespace.
    @Suite(.serialized) struct AddressTests {
        struct Case: Sendable, CustomTestStringConvertible {
            var listening: String
            /// In the order of the file.
            var hosts: [String]
            /// The address that answers nothing.
            var dead: String?

            var testDescription: String { "\(hosts)\(dead.map { ", \($0) is dead" } ?? "")" }
        }

        static let cases = [
            Case(listening: "::1", hosts: ["::1"]), Case(listening: "127.0.0.1", hosts: ["127.0.0.1"]),
            // Nothing listens at the first address.
            Case(listening: "127.0.0.1", hosts: ["::1", "127.0.0.1"]),
            // The worker goes on to the next address when one does not answer (RFC 8305).
            Case(listening: "127.0.0.1", hosts: ["::1", "127.0.0.1"], dead: "::1"),
            Case(listening: "::1", hosts: ["127.0.0.1", "::1"], dead: "127.0.0.1"),
            Case(listening: "127.0.0.9", hosts: ["127.0.0.9", "127.0.0.1"], dead: "127.0.0.1"),
        ]

        @Test(
            .needs(.worker), .enabled(if: canUnshare, "needs a mount namespace of its own: root"), arguments: cases)
        func `The address that answers is taken`(_ it: Case) throws {
            let scene = try Scene(withoutBroker: "address")
            // The same port at two addresses.
            let port = Ports.claim()
            let dead = try it.dead.map { try DeadListener($0, port: port) }
            defer { withExtendedLifetime(dead) {} }
            let listening = it.listening.contains(":") ? "[\(it.listening)]" : it.listening
            _ = try scene.startSimulator(host: listening, port: port, arguments: ["--name", "push.test"])
            try scene.write(it.hosts.map { "\($0) push.test\n" }.joined(), to: "hosts")
            scene.configuration.host = "push.test"
            let ended = try scene.sendDirectly(
                through: [
                    "unshare", "--mount", "sh", "-c", "mount --bind \"$0\" /etc/hosts && exec \"$@\"",
                    scene.file("hosts"),
                ])
            #expect(ended.ending == .exited(0) && ended.text.contains(" accepted     200 "), "\(ended.text)")
        }

        private static let canUnshare: Bool = {
            let ended = try? Scene.run("unshare", ["--mount", "mount", "--bind", "/etc/hosts", "/etc/hosts"])
            return ended?.ending == .exited(0)
        }()
    }
}
