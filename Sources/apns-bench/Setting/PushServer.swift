import Glibc
import TLS

/// nghttp2's own server in the place of APNs: it answers 200 to a POST of each known device, and looks at nothing else.
final class PushServer {
    let port: Int
    /// PEM of the authority that signed its certificate.
    let authorityFile: String
    /// A key as Apple gives them out; nghttpd does not ask for it, but the worker signs with it.
    let signingKeyFile: String
    private let process: Child

    init(_ nghttpd: String, port: Int, _ traffic: Traffic, scratch: Scratch) throws {
        self.port = try port == 0 ? Ports.free(1)[0] : port
        guard !Ports.isServed(self.port) else { throw BenchFailure("port \(self.port) is taken (--nghttpd)") }
        let authority = try CertificateAuthority(commonName: "apns-bench")
        let issued = try authority.issueServer()
        authorityFile = try scratch.write(authority.certificatePEM, to: "ca.pem")
        signingKeyFile = try scratch.write(SelfSigned.privateKey(), to: "AuthKey.p8")
        let certificate = try scratch.write(issued.certificatePEM, to: "server.pem")
        let key = try scratch.write(issued.keyPEM, to: "server.key")
        let root = try scratch.makeDirectory("documents")
        _ = try scratch.makeDirectory("documents/3")
        _ = try scratch.makeDirectory("documents/3/device")
        for token in traffic.tokens { try scratch.write("", to: "documents/3/device/\(token)") }
        // As many streams as APNs allows, and windows that never close.
        process = try Child(
            "nghttpd",
            [
                nghttpd, "-a", "127.0.0.1", "-m", "1000", "-w", "20", "-W", "26", "-d", root, "\(self.port)", key,
                certificate,
            ], scratch: scratch)
        let deadline = Deadline(seconds: 20)
        while !Ports.isServed(self.port) {
            if process.hasEnded { throw process.failure }
            guard !deadline.isOver else { throw BenchFailure("nghttpd does not listen on port \(self.port)") }
            try Interruption.pause(ms: 20)
        }
    }
}
