import Foundation
import TestSupport
import Testing

extension EndToEnd.Services {
    /// Through tinyproxy. What it refuses is said in words that tell what to do, and when it dies with requests on
    /// their way, that costs time and nothing else.
    @Suite(.serialized) struct ForeignProxyTests {
        /// A proxy that takes one user, and CONNECT to one port.
        private struct Proxy {
            let process: ChildProcess
            /// The host, and how it stands in a URL.
            let host: String
            let port: Int

            /// - Parameter port: where one was before, or `nil` for any.
            init(in folder: URL, host: String = "127.0.0.1", port: Int? = nil, allowing allowed: Int) throws {
                self.host = host
                self.port = port ?? Ports.claim()
                let file = folder.appending(path: "tinyproxy.conf").path
                let text = """
                    Port \(self.port)
                    Listen \(host)
                    Timeout 600
                    ConnectPort \(allowed)
                    BasicAuth worker pass9word

                    """
                try text.write(toFile: file, atomically: true, encoding: .utf8)
                process = try ChildProcess(Tool.tinyproxy.path(), ["-d", "-c", file])
                try process.waitFor("Accepting")
            }

            func url(_ credentials: String = "worker:pass9word@") -> String {
                "http://\(credentials)\(host.contains(":") ? "[\(host)]" : host):\(port)"
            }
        }

        @Test(.needs(.worker, .tinyproxy))
        func `What a proxy refuses is understood`() throws {
            let folder = FileManager.default.temporaryDirectory.appending(path: KafkaBroker.uniqueName("proxy"))
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            let closedPort = Ports.claim()
            let simulator = try RunningSimulator(in: folder)
            defer { try? simulator.process.killNow() }
            var configuration = Configuration(servers: "127.0.0.1:1", name: "proxy")
            let file = folder.appending(path: "worker.yaml").path
            func send(through proxy: String, to port: Int, deadline: String = "60s") throws -> Scene.Finished {
                configuration.proxy = proxy
                configuration.port = port
                try configuration.text.write(toFile: file, atomically: true, encoding: .utf8)
                let token = String(repeating: "80fe", count: 16)
                let ended = try Scene.run(
                    Tool.worker.path(),
                    ["send", "--direct", "-c", file, "-t", token, "-a", "Hi", "--deadline", deadline])
                #expect(!ended.text.contains("pass9word"))
                return ended
            }
            func expectSent(through proxy: Proxy) throws {
                let ended = try send(through: proxy.url(), to: simulator.port)
                #expect(ended.ending == .exited(0) && ended.text.contains(" accepted     200 "), "\(ended.text)")
            }
            /// It is tried again until the deadline, and then the reason is said.
            func expectRefused(_ words: Regex<Substring>, through proxy: String, to port: Int) throws {
                let ended = try send(through: proxy, to: port, deadline: "3s")
                #expect(ended.ending == .exited(1) && ended.text.contains(words), "\(ended.text)")
            }
            var proxy = try Proxy(in: folder, allowing: simulator.port)
            try expectSent(through: proxy)
            try expectRefused(
                /refused to connect to localhost:\d+: 407 .*\(it wants a user and a password: http:\/\/user:password@host:port\)/,
                through: proxy.url(""), to: simulator.port)
            // tinyproxy says 401, against RFC 9110, 15.5.8.
            try expectRefused(
                /: 40[17] [A-Z].*\(it does not take the user and password/, through: proxy.url("worker:wrong@"),
                to: simulator.port)
            try expectRefused(
                /proxy 127.0.0.1:\d+: refused to connect to localhost:\d+: 403 .*\(its rules allow no CONNECT to port/,
                through: proxy.url(), to: closedPort)
            try proxy.process.killNow()
            try expectRefused(/proxy 127.0.0.1:\d+: Connection refused/, through: proxy.url(), to: simulator.port)
            // What the proxy cannot reach is not the proxy's fault.
            proxy = try Proxy(in: folder, allowing: closedPort)
            try expectRefused(
                /refused to connect to localhost:\d+: 50.*\(it could not reach that host itself\)/,
                through: proxy.url(),
                to: closedPort)
            try proxy.process.killNow()

            proxy = try Proxy(in: folder, host: "::1", allowing: simulator.port)
            try expectSent(through: proxy)
            try expectRefused(/proxy \[::1\]:\d+: refused to connect/, through: proxy.url(""), to: simulator.port)
            try proxy.process.killNow()
        }

        @Test(.needs(.worker, .broker, .python, .tinyproxy))
        func `A proxy that dies with requests on their way loses nothing`() throws {
            let scene = try Scene("proxy")
            let simulator = try scene.startSimulator("--latency", "300ms")
            var proxy = try Proxy(in: scene.folder, allowing: scene.configuration.port)
            scene.configuration.proxy = proxy.url()
            try scene.produce(8_000, "--plain")
            let check = try scene.startWorker("check")
            #expect(try check.wait() == .exited(0), "\(check.text)")
            let place = "localhost:\(scene.configuration.port)"
            #expect(check.text.contains("\(place) reached through the proxy 127.0.0.1:\(proxy.port), TLSv1.3"))
            let worker = try scene.startWorker()
            try simulator.awaitRequests(2_000)
            try proxy.process.killNow()
            try worker.waitFor("\(place) through the proxy 127.0.0.1:\(proxy.port)")
            try worker.waitFor("proxy 127.0.0.1:\(proxy.port): Connection refused")
            proxy = try Proxy(in: scene.folder, port: proxy.port, allowing: scene.configuration.port)
            defer { try? proxy.process.killNow() }
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }
    }
}
