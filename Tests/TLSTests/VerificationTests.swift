import TLS
import Testing

@Suite struct VerificationTests {
    @Test(arguments: ["localhost", "127.0.0.1", "::1", "api.push.example", "localhost."])
    func `Names in the certificate are accepted`(hostName: String) throws {
        try Pair(hostName: hostName).settle()
    }

    @Test(arguments: ["example.com", "127.0.0.2", "::2", "push.example", "x.api.push.example", "localhost.example"])
    func `Other names are refused`(hostName: String) throws {
        let pair = try Pair(hostName: hostName)
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains(hostName) == true)
        #expect(error?.text.contains("for another name") == true)
        #expect(!pair.client.isHandshakeComplete)
        #expect(!pair.client.pendingOutput.isEmpty, "an alert for the server")
    }

    @Test(arguments: ["", "a b\u{0}c"]) func `What is no name is refused at once`(hostName: String) throws {
        #expect(failure { _ = try Pair(hostName: hostName) }?.kind == .verification)
    }

    @Test func `Another authority is refused`() throws {
        let other = try CertificateAuthority(commonName: "other")
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("not trusted") == true)
        #expect(error?.text.contains("(tls.ca_file names the authorities to trust") == true)
    }

    @Test func `Another authority of the same name is refused`() throws {
        let other = try CertificateAuthority()
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("not trusted: certificate signature failure (tls.ca_file names") == true)
    }

    @Test func `The system does not trust our authority`() throws {
        let pair = try Pair(client: ClientOptions(trust: .system))
        #expect(failure { try pair.settle() }?.kind == .verification)
    }

    @Test func `Verification can be turned off`() throws {
        let pair = try Pair(hostName: "anything.example", client: ClientOptions(trust: .anyone))
        try pair.settle()
        #expect(pair.client.isHandshakeComplete)
    }

    @Test func `An expired certificate is refused`() throws {
        let expired = try Pair.authority.issueServer(validForDays: -2).identity()
        let pair = try Pair(server: ServerOptions(identity: expired))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("expired") == true)
        #expect(error?.text.contains("tls.ca_file") == false, "another authority would not help")
    }

    @Test func `The server learns why it was refused`() throws {
        let other = try CertificateAuthority(commonName: "other")
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        _ = failure { try pair.settle() }
        let error = failure { _ = try pair.give(pair.take(pair.client), pair.server, &pair.atServer) }
        #expect(error?.kind == .protocolFailure)
        #expect(error?.text.contains("unknown ca") == true)
    }

    @Test func `Protocols that do not match fail on both sides`() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: ["h2"]),
            server: ServerOptions(identity: Pair.identity, alpn: ["http/1.1"]))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .applicationProtocol)
        #expect(error?.text == "localhost does not speak h2 (ALPN)")
    }

    @Test func `A server without ALPN fails a client that needs it`() throws {
        let pair = try Pair(server: ServerOptions(identity: Pair.identity, alpn: []))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .applicationProtocol)
        #expect(error?.text.contains("does not speak h2") == true)
    }

    @Test func `Without ALPN on both sides none is agreed`() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: []),
            server: ServerOptions(identity: Pair.identity, alpn: ["h2"]))
        try pair.settle()
        #expect(pair.client.applicationProtocol == nil)
        #expect(pair.server.applicationProtocol == nil)
    }

    @Test func `The servers order of protocols decides`() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: ["http/1.1", "h2"]),
            server: ServerOptions(identity: Pair.identity, alpn: ["h2", "http/1.1"]))
        try pair.settle()
        #expect(pair.client.applicationProtocol == "h2")
    }

    @Test(arguments: ["", String(repeating: "x", count: 256)]) func `A protocols name has a limit`(name: String) {
        #expect(failure { _ = try ClientContext(ClientOptions(alpn: [name])) }?.kind == .credential)
    }

    @Test func `A client certificate is seen by the server`() throws {
        let identity = try Pair.authority.issueClient(bundleID: "com.example.shop").identity()
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), identity: identity),
            server: ServerOptions(
                identity: Pair.identity, clientCertificates: .required(.pem(Pair.authority.certificatePEM))))
        try pair.settle()
        #expect(pair.server.peerCertificate?.userID == "com.example.shop")
        #expect(
            pair.server.peerCertificate?.subject
                == "CN=Apple Push Services: com.example.shop,UID=com.example.shop")
        #expect(identity.details.notAfterMs > identity.details.notBeforeMs)
    }

    @Test func `A requested client certificate is neither verified nor needed`() throws {
        let stranger = try CertificateAuthority(commonName: "stranger").issueClient(bundleID: "x").identity()
        for identity in [stranger, nil] {
            let pair = try Pair(
                client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), identity: identity),
                server: ServerOptions(identity: Pair.identity, clientCertificates: .requested))
            try pair.settle()
            #expect(pair.server.isHandshakeComplete)
            #expect(pair.server.peerCertificate?.userID == identity.map { _ in "x" })
        }
    }

    @Test func `A missing client certificate fails the client when it reads`() throws {
        let pair = try Pair(
            server: ServerOptions(
                identity: Pair.identity, clientCertificates: .required(.pem(Pair.authority.certificatePEM))))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .protocolFailure)
        #expect(error?.text.contains("certificate required") == true)
    }
}
