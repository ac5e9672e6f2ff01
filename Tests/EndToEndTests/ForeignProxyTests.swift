import TestSupport
import Testing

extension EndToEnd {
    /// Tests with tinyproxy.
    @Suite struct ForeignProxyTests {
        /// A proxy that accepts one user, and CONNECT to one port.
        private struct Proxy {
            let process: ChildProcess
            let host: String
            let port: Int

            /// The proxy's address as in a URL.
            var address: String { "\(host.contains(":") ? "[\(host)]" : host):\(port)" }

            init(in scene: Scene, host: String, allowing allowed: Int) throws {
                self.host = host
                port = Ports.claim()
                let text = """
                    Port \(port)
                    Listen \(host)
                    Timeout 600
                    ConnectPort \(allowed)
                    BasicAuth worker pass9word

                    """
                try scene.write(text, to: "tinyproxy.conf")
                process = try scene.start(Tool.tinyproxy.path(), ["-d", "-c", scene.file("tinyproxy.conf")])
                try process.waitFor("Accepting")
            }
        }

        /// The refusals of the proxy are reported. `ProxyTests` has more of them.
        @Test(.needs(.worker, .tinyproxy), arguments: ["127.0.0.1", "::1"])
        func `A proxy is used only with the right password`(host: String) throws {
            let scene = try Scene(withoutBroker: "proxy")
            let simulator = try scene.startSimulator()
            let proxy = try Proxy(in: scene, host: host, allowing: simulator.port)
            /// Sends through the proxy. A refused command retries until the deadline, and then reports the reason.
            func send(_ credentials: String, to port: Int, deadline: String = "10s") throws -> Scene.Finished {
                scene.configuration.proxy = "http://\(credentials)\(proxy.address)"
                scene.configuration.port = port
                let ended = try scene.sendDirectly("--deadline", deadline)
                #expect(!ended.text.contains("pass9word"))
                return ended
            }
            try send("worker:pass9word@", to: simulator.port, deadline: "60s").expect(0, " accepted     200 ")
            // The check reports that there is no broker.
            try scene.check().expect(
                1, "localhost:\(simulator.port) reached through the proxy \(proxy.address), TLSv1.3")
            let named = "proxy \(proxy.address): refused to connect to localhost:"
            try send("", to: simulator.port)
                .expect(
                    1, named, ": 407 ", "(the proxy requires a user and a password: http://user:password@host:port)")
            // tinyproxy answers 401, contrary to RFC 9110, section 15.5.8.
            try send("worker:wrong@", to: simulator.port).expect(
                1, named, "(the proxy rejected the configured user and password")
            try send("worker:pass9word@", to: Ports.claim()).expect(
                1, ": 403 ", "(the proxy's rules forbid CONNECT to port")
        }
    }
}
