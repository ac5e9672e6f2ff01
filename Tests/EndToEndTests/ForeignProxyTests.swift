import Foundation
import TestSupport
import Testing

extension EndToEnd {
    /// Through tinyproxy.
    @Suite struct ForeignProxyTests {
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

            func url(_ credentials: String) -> String {
                "http://\(credentials)\(host.contains(":") ? "[\(host)]" : host):\(port)"
            }
        }

        /// Its refusals are understood. `ProxyTests` has more of them.
        @Test(.needs(.worker, .tinyproxy), arguments: ["127.0.0.1", "::1"])
        func `A proxy is used with the right password only`(host: String) throws {
            let scene = try Scene(withoutBroker: "proxy")
            let simulator = try scene.startSimulator()
            let proxy = try Proxy(in: scene, host: host, allowing: simulator.port)
            /// A refused worker tries again until the deadline, and then says the reason.
            func send(_ credentials: String, to port: Int, deadline: String = "2s") throws -> Scene.Finished {
                scene.configuration.proxy = proxy.url(credentials)
                scene.configuration.port = port
                let ended = try scene.sendDirectly("--deadline", deadline)
                #expect(!ended.text.contains("pass9word"))
                return ended
            }
            try send("worker:pass9word@", to: simulator.port, deadline: "60s").expect(0, " accepted     200 ")
            let named = "proxy \(host.contains(":") ? "[::1]" : host):\(proxy.port): refused to connect to localhost:"
            try send("", to: simulator.port)
                .expect(1, named, ": 407 ", "(it wants a user and a password: http://user:password@host:port)")
            // tinyproxy says 401, against RFC 9110, 15.5.8.
            try send("worker:wrong@", to: simulator.port).expect(1, named, "(it does not take the user and password")
            try send("worker:pass9word@", to: Ports.claim()).expect(1, ": 403 ", "(its rules allow no CONNECT to port")
        }

        @Test(.needs(.worker, .broker, .python, .tinyproxy))
        func `A proxy that dies with requests in flight loses nothing`() throws {
            let scene = try Scene("proxy")
            let simulator = try scene.startSimulator("--latency", "300ms")
            let proxy = try Proxy(in: scene, allowing: scene.configuration.port)
            scene.configuration.proxy = proxy.url("worker:pass9word@")
            try scene.produce(8_000, "--plain")
            let place = "localhost:\(scene.configuration.port)"
            try scene.check().expect(0, "\(place) reached through the proxy 127.0.0.1:\(proxy.port), TLSv1.3")
            let worker = try scene.startWorker()
            try simulator.awaitRequests(2_000)
            try proxy.process.killNow()
            try worker.waitFor("\(place) through the proxy 127.0.0.1:\(proxy.port)")
            try worker.waitFor("proxy 127.0.0.1:\(proxy.port): Connection refused")
            _ = try Proxy(in: scene, port: proxy.port, allowing: scene.configuration.port)
            try scene.finish(worker)
            try scene.audit("--simulator", simulator.control, "--doubtful")
        }
    }
}
