import Foundation
import TestSupport
import Testing

extension EndToEnd.Services {
    /// Through proxies that are not ours: tinyproxy, and squid where it is installed. What they refuse is said in words
    /// that tell what to do, and one that dies with requests on their way costs time and nothing else.
    @Suite(.serialized) struct ForeignProxyTests {
        private static let token = String(repeating: "80fe", count: 16)

        /// A proxy that takes one user, and CONNECT to one port.
        private struct Proxy {
            let process: ChildProcess
            /// The host, and how it stands in a URL.
            let host: String
            let port: Int

            /// - Parameter port: where one was before, or `nil` for any.
            init(_ tool: Tool, in folder: URL, host: String = "127.0.0.1", port: Int? = nil, allowing allowed: Int)
                throws
            {
                let port = port ?? KafkaBroker.freePorts(1)[0]
                let file = folder.appending(path: "\(tool.rawValue).conf").path
                let text: String
                var arguments: [String]
                if tool == .tinyproxy {
                    text = """
                        Port \(port)
                        Listen \(host)
                        Timeout 600
                        ConnectPort \(allowed)
                        BasicAuth worker pass9word

                        """
                    arguments = ["-d", "-c", file]
                } else {
                    let users = folder.appending(path: "users").path
                    let hashed = try Scene.run(Tool.openssl.path(), ["passwd", "-apr1", "pass9word"])
                    try "worker:\(hashed.text)".write(toFile: users, atomically: true, encoding: .utf8)
                    text = """
                        http_port \(host.contains(":") ? "[\(host)]" : host):\(port)
                        auth_param basic program /usr/lib/squid/basic_ncsa_auth \(users)
                        acl known proxy_auth REQUIRED
                        acl allowed port \(allowed)
                        http_access deny !allowed
                        http_access allow known
                        http_access deny all
                        cache deny all
                        pid_filename none
                        access_log none
                        cache_log /dev/null

                        """
                    // A name of its own: one that is killed leaves its shared memory behind.
                    arguments = [
                        "-N", "-d", "1", "-n", "e2e\(port)x\(getpid())\(UInt16.random(in: 0...9_999))", "-f", file,
                    ]
                }
                try text.write(toFile: file, atomically: true, encoding: .utf8)
                process = try ChildProcess(tool.path(), arguments)
                self.host = host
                self.port = port
                try process.waitFor("Accepting", seconds: 20)
            }

            func url(_ credentials: String = "worker:pass9word@") -> String {
                "http://\(credentials)\(host.contains(":") ? "[\(host)]" : host):\(port)"
            }
        }

        @Test(.needs(.worker, .tinyproxy), .timeLimit(.minutes(2)))
        func whatTinyproxySaysIsUnderstood() throws { try beUnderstood(.tinyproxy) }

        @Test(
            .enabled(if: Tool.squid.place != nil, "squid is not installed (by hand: apt-get install squid)"),
            .needs(.worker, .openssl), .timeLimit(.minutes(2)))
        func whatSquidSaysIsUnderstood() throws { try beUnderstood(.squid) }

        private func beUnderstood(_ tool: Tool) throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("proxy"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let closedPort = KafkaBroker.freePorts(1)[0]
            let simulator = try RunningSimulator(in: folder)
            var configuration = Configuration(servers: "127.0.0.1:1", name: "proxy")
            let file = folder.appending(path: "worker.yaml").path
            func send(through proxy: String, to port: Int = simulator.port) throws -> Scene.Finished {
                configuration.proxy = proxy
                configuration.port = port
                try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
                let ended = try Scene.run(
                    Tool.worker.path(),
                    ["send", "--direct", "-c", file, "-t", Self.token, "-a", "Hi", "--deadline", "4s"])
                print(ended.text)
                #expect(!ended.text.contains("pass9word"))
                return ended
            }
            var proxy = try Proxy(tool, in: folder, allowing: simulator.port)
            let place = "proxy 127.0.0.1:\(proxy.port): refused to connect to localhost:"
            let accepted = try send(through: proxy.url())
            #expect(accepted.ending == .exited(0) && accepted.text.contains(" accepted     200 "))
            let unknown = try send(through: proxy.url(""))
            #expect(unknown.ending == .exited(1) && unknown.text.contains("\(place)\(simulator.port): 407 "))
            #expect(unknown.text.contains("(it wants a user and a password: http://user:password@host:port)"))
            let wrong = try send(through: proxy.url("worker:wrong@"))
            // tinyproxy says 401, against RFC 9110, 15.5.8.
            #expect(
                wrong.text.contains(/: 40[17] [A-Z]/) && wrong.text.contains("(it does not take the user and password"))
            let forbidden = try send(through: proxy.url(), to: closedPort)
            #expect(forbidden.text.contains("\(place)\(closedPort): 403 "))
            #expect(forbidden.text.contains("(its rules allow no CONNECT to port \(closedPort)"))
            // What the proxy cannot reach is not the proxy's fault.
            try proxy.process.killNow()
            let gone = try send(through: proxy.url())
            #expect(gone.text.contains("proxy 127.0.0.1:\(proxy.port): Connection refused"))
            proxy = try Proxy(tool, in: folder, allowing: closedPort)
            let unreached = try send(through: proxy.url(), to: closedPort)
            #expect(unreached.text.contains("refused to connect to localhost:\(closedPort): 50"))
            #expect(unreached.text.contains("(it could not reach that host itself)"))
            try proxy.process.stop()

            proxy = try Proxy(tool, in: folder, host: "::1", allowing: simulator.port)
            let six = try send(through: proxy.url())
            #expect(six.ending == .exited(0) && six.text.contains(" accepted     200 "))
            let refused = try send(through: proxy.url(""))
            #expect(refused.text.contains("proxy [::1]:\(proxy.port): refused to connect"))
            try proxy.process.stop()
            try simulator.process.stop()
        }

        @Test(.needs(.worker, .broker, .python, .tinyproxy), .timeLimit(.minutes(4)))
        func tinyproxyDiesInMidFlight() throws { try dieInMidFlight(.tinyproxy) }

        @Test(
            .enabled(if: Tool.squid.place != nil, "squid is not installed (by hand: apt-get install squid)"),
            .needs(.worker, .broker, .python, .openssl), .timeLimit(.minutes(4)))
        func squidDiesInMidFlight() throws { try dieInMidFlight(.squid) }

        private func dieInMidFlight(_ tool: Tool) throws {
            let scene = try Scene("proxy")
            let simulator = try scene.startSimulator("--latency", "300ms")
            var proxy = try Proxy(tool, in: scene.folder, allowing: scene.configuration.port)
            scene.configuration.proxy = proxy.url()
            try scene.produce(20_000, "--plain")
            let check = try scene.startWorker("check")
            #expect(try check.wait(seconds: 60) == .exited(0), "\(check.text)")
            let place = "localhost:\(scene.configuration.port)"
            #expect(check.text.contains("\(place) reached through the proxy 127.0.0.1:\(proxy.port), TLSv1.3"))
            let worker = try scene.startWorker()
            try scene.books("seen", "--simulator", simulator.control, "--at-least", "3000")
            try proxy.process.killNow()
            try worker.waitFor("\(place) through the proxy 127.0.0.1:\(proxy.port)", seconds: 20)
            try worker.waitFor("proxy 127.0.0.1:\(proxy.port): Connection refused", seconds: 20)
            proxy = try Proxy(tool, in: scene.folder, port: proxy.port, allowing: scene.configuration.port)
            try scene.settle(worker)
            try scene.stop(worker)
            print(worker.text.split(separator: "\n").filter { $0.contains("proxy") }.suffix(12).joined(separator: "\n"))
            try scene.audit("--simulator", simulator.control, "--doubtful")
            try proxy.process.stop()
            try simulator.process.stop()
        }
    }
}
