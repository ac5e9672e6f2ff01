import Glibc
import TLS

/// Where a worker sends to, and what it shows and trusts there.
struct PushAddress {
    var port: Int
    /// PEM of the authority that signed the server's certificate.
    var authorityFile: String
    /// A key as Apple gives them out.
    var signingKeyFile: String
    var signingKeyID = "BENCHMARK1"
    /// PEM files of the certificate shown to a gateway of the binary protocol, and of its key; `nil`: it speaks HTTP/2.
    var client: (certificateFile: String, keyFile: String)?

    /// The same by another way.
    func through(port: Int) -> PushAddress {
        var address = self
        address.port = port
        return address
    }
}

/// A certificate for servers of the bench's own, and a key that the worker signs its provider tokens with.
struct ServerCertificates {
    let authorityFile: String
    let certificateFile: String
    let keyFile: String
    let signingKeyFile: String
    let clientFile: String
    let clientKeyFile: String

    init(_ scratch: Scratch) throws {
        let authority = try CertificateAuthority(commonName: "apns-bench")
        let issued = try authority.issueServer()
        authorityFile = try scratch.write(authority.certificatePEM, to: "ca.pem")
        certificateFile = try scratch.write(issued.certificatePEM, to: "server.pem")
        keyFile = try scratch.write(issued.keyPEM, to: "server.key")
        signingKeyFile = try scratch.write(SelfSigned.privateKey(), to: "AuthKey.p8")
        let client = try authority.issueClient(bundleID: Traffic.bundleID)
        clientFile = try scratch.write(client.certificatePEM, to: "client.pem")
        clientKeyFile = try scratch.write(client.keyPEM, to: "client.key")
    }

    func address(port: Int) -> PushAddress {
        PushAddress(port: port, authorityFile: authorityFile, signingKeyFile: signingKeyFile)
    }

    /// One of the binary protocol.
    func gateway(port: Int) -> PushAddress {
        var address = address(port: port)
        address.client = (clientFile, clientKeyFile)
        return address
    }
}

/// Waits until somebody accepts connections there.
func awaitServing(_ port: Int, by child: Child) throws(BenchFailure) {
    let deadline = Deadline(seconds: 20)
    while !Ports.isServed(port) {
        if child.hasEnded { throw child.failure }
        guard !deadline.isOver else { throw BenchFailure("\(child.name) does not listen on port \(port)") }
        try Interruption.pause(ms: 20)
    }
}

/// nghttp2's own server in the place of APNs: it answers 200 to a POST of each known device, and looks at nothing else.
final class PushServer {
    let address: PushAddress
    private let process: Child

    init(_ nghttpd: String, port: Int, _ traffic: Traffic, _ certificates: ServerCertificates, scratch: Scratch) throws
    {
        let port = try port == 0 ? Ports.free(1)[0] : port
        guard !Ports.isServed(port) else { throw BenchFailure("port \(port) is taken (--nghttpd)") }
        address = certificates.address(port: port)
        let root = try scratch.makeDirectory("documents")
        _ = try scratch.makeDirectory("documents/3")
        _ = try scratch.makeDirectory("documents/3/device")
        for token in traffic.tokens { try scratch.write("", to: "documents/3/device/\(token)") }
        // Windows that never close.
        process = try Child(
            "nghttpd",
            [
                nghttpd, "-a", "127.0.0.1", "-m", "\(WorkerFile.streams)", "-w", "20", "-W", "26", "-d", root,
                "\(port)",
                certificates.keyFile, certificates.certificateFile,
            ], scratch: scratch)
        try awaitServing(port, by: process)
    }
}
