import Foundation
import TestSupport
import Testing

extension EndToEnd.Services {
    /// Through tinyproxy.
    @Suite(.serialized) struct ForeignProxyTests {
        /// A proxy that takes one user, and CONNECT to one port.
        private struct Proxy {
            let process: ChildProcess
            let host: String
            let port: Int

            /// - Parameter port: Where one was before, or `nil` for any.
            init(in scene: Scene, host: String = "127.0.0.1", port: Int? = nil, allowing allowed: Int) throws {
                self.host = host
                self.port = port ?? Ports.claim()
                let text = """
                    Port \(self.port)
                    Listen \(host)
                    Timeout 600
                    ConnectPort \(allowed)
                    BasicAuth worker pass9word

                    """
                try scene.write(text, to: "tinyproxy.conf")
                process = try scene.start(Tool.tinyproxy.path(), ["-d", "-c", scene.file("tinyproxy.conf")])
                try process.waitFor("Accepting")
            }

            func url(_ credentials: String = "worker:pass9word@") -> String {
                "http://\(credentials)\(host.contains(":") ? "[\(host)]" : host):\(port)"
            }
        }

        @Test(.needs(.worker, .tinyproxy))
        func `The refusals of a proxy are understood`() throws {
            let scene = try Scene(withoutBroker: "proxy")
            let closedPort = Ports.claim()
            let simulator = try scene.startSimulator()
            func send(through proxy: String, to port: Int, deadline: String = "60s") throws -> Scene.Finished {
                scene.configuration.proxy = proxy
                scene.configuration.port = port
                let ended = try scene.sendDirectly("--deadline", deadline)
                #expect(!ended.text.contains("pass9word"))
                return ended
            }
            func expectSent(through proxy: Proxy) throws {
                let ended = try send(through: proxy.url(), to: simulator.port)
                #expect(ended.ending == .exited(0) && ended.text.contains(" accepted     200 "), "\(ended.text)")
            }
            /// The worker tries again until the deadline, and then says the reason.
            func expectRefused(_ words: Regex<Substring>, through proxy: String, to port: Int) throws {
                let ended = try send(through: proxy, to: port, deadline: "3s")
                #expect(ended.ending == .exited(1) && ended.text.contains(words), "\(ended.text)")
            }
            var proxy = try Proxy(in: scene, allowing: simulator.port)
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
            proxy = try Proxy(in: scene, allowing: closedPort)
            try expectRefused(
                /refused to connect to localhost:\d+: 50.*\(it could not reach that host itself\)/,
                through: proxy.url(), to: closedPort)
            try proxy.process.killNow()

            proxy = try Proxy(in: scene, host: "::1", allowing: simulator.port)
            try expectSent(through: proxy)
            try expectRefused(/proxy \[::1\]:\d+: refused to connect/, through: proxy.url(""), to: simulator.port)
        }

        @Test(.needs(.worker, .broker, .python, .tinyproxy))
        func `A proxy that dies with requests in flight loses nothing`() throws {
            let scene = try Scene("proxy")
            let simulator = try scene.startSimulator("--latency", "300ms")
            let proxy = try Proxy(in: scene, allowing: scene.configuration.port)
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
            _ = try Proxy(in: scene, port: proxy.port, allowing: scene.configuration.port)
            try scene.settle(worker)
            try scene.stop(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }
    }
}
