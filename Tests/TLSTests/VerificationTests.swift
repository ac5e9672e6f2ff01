import TLS
import Testing

@Suite struct VerificationTests {
    @Test(arguments: ["localhost", "127.0.0.1", "::1", "api.push.example", "localhost."])
    func `A host name in the server's certificate is accepted`(hostName: String) throws {
        try Pair(hostName: hostName).settle()
    }

    @Test(arguments: ["example.com", "127.0.0.2", "::2", "push.example", "x.api.push.example", "localhost.example"])
    func `A host name that is not in the server's certificate is refused`(hostName: String) throws {
        let pair = try Pair(hostName: hostName)
        let error = #expect(throws: TLSError.self) { try pair.settle() }
        #expect(error?.text.contains(hostName) == true)
        #expect(error?.text.contains("for another name") == true)
        #expect(!pair.client.isHandshakeComplete)
        #expect(!pair.client.pendingOutput.isEmpty, "The client must send an alert to the server")
    }

    @Test(arguments: ["", "a b\u{0}c"]) func `An invalid host name is refused at once`(hostName: String) throws {
        #expect(throws: TLSError.self) { _ = try Pair(hostName: hostName) }
    }

    /// The name of the trusted authority, and a part of the error text.
    @Test(arguments: [
        ("other", "the system's)"), ("apns-worker test CA", "certificate signature failure (set tls.ca_file"),
    ])
    func `A certificate of another authority is refused even if the names match`(name: String, words: String) throws {
        let other = try CertificateAuthority(commonName: name)
        let pair = try Pair(client: ClientContext(trust: .pem(other.certificatePEM)))
        let error = #expect(throws: TLSError.self) { try pair.settle() }
        #expect(error?.text.contains("not trusted") == true && error?.text.contains(words) == true)
        #expect(error?.text.contains("(set tls.ca_file to a file with the authorities to trust") == true)
    }

    @Test func `The system does not trust a test authority`() throws {
        let pair = try Pair(client: ClientContext(trust: .system))
        #expect(throws: TLSError.self) { try pair.settle() }
    }

    @Test func `Verification can be turned off`() throws {
        let pair = try Pair(hostName: "anything.example", client: ClientContext(trust: .anyone))
        try pair.settle()
        #expect(pair.client.isHandshakeComplete)
    }

    @Test func `An expired certificate is refused`() throws {
        let expired = try Pair.authority.issueServer(validForDays: -2).identity()
        let pair = try Pair(server: ServerContext(identity: expired))
        let error = #expect(throws: TLSError.self) { try pair.settle() }
        #expect(error?.text.contains("expired") == true)
        #expect(error?.text.contains("tls.ca_file") == false, "Another authority would not help")
    }

    @Test func `The server's error contains the reason of the client's refusal`() throws {
        let other = try CertificateAuthority(commonName: "other")
        let pair = try Pair(client: ClientContext(trust: .pem(other.certificatePEM)))
        #expect(throws: TLSError.self) { try pair.settle() }
        let alert = pair.take(pair.client)
        let error = #expect(throws: TLSError.self) { _ = try pair.give(alert, pair.server, &pair.atServer) }
        #expect(error?.text.contains("unknown ca") == true)
    }

    @Test(
        arguments: [
            (["h2"], ["http/1.1"], nil), (["h2"], [], nil), ([], ["h2"], ""),
            (["http/1.1", "h2"], ["h2", "http/1.1"], "h2"),
        ] as [([String], [String], String?)])
    func `The server chooses a protocol that the client offers, or the handshake fails`(
        offered: [String], accepted: [String], chosen: String?
    ) throws {
        let pair = try Pair(
            client: ClientContext(trust: .pem(Pair.authority.certificatePEM), alpn: offered),
            server: ServerContext(identity: Pair.identity, alpn: accepted))
        if let chosen {
            try pair.settle()
            #expect(pair.client.applicationProtocol ?? "" == chosen)
            #expect(pair.server.applicationProtocol ?? "" == chosen)
        } else {
            let error = #expect(throws: TLSError.self) { try pair.settle() }
            #expect(error?.text.contains("localhost does not speak h2") == true)
        }
    }

    @Test func `A server that only requests a client certificate neither verifies nor requires it`() throws {
        let stranger = try CertificateAuthority(commonName: "stranger").issueClient(bundleID: "x").identity()
        for identity in [stranger, nil] {
            let pair = try Pair(
                client: ClientContext(trust: .pem(Pair.authority.certificatePEM), identity: identity),
                server: ServerContext(identity: Pair.identity, clientCertificates: .requested))
            try pair.settle()
            #expect(pair.server.isHandshakeComplete)
            #expect(pair.server.peerCertificate?.userID == identity.map { _ in "x" })
        }
    }

    @Test func `The client reports that the server requires a client certificate`() throws {
        let pair = try Pair(
            server: ServerContext(
                identity: Pair.identity, clientCertificates: .required(.pem(Pair.authority.certificatePEM))))
        let error = #expect(throws: TLSError.self) { try pair.settle() }
        #expect(error?.text.contains("certificate required") == true)
    }

    /// With TLS 1.3, the client completes its handshake before the server verifies the certificate.
    @Test(arguments: [true, false])
    func `The error of a refused client certificate contains the server's reason`(isExpired: Bool) throws {
        let authority = isExpired ? Pair.authority : try CertificateAuthority(commonName: "stranger")
        let issued = try authority.issueClient(bundleID: "com.example.shop", validForDays: isExpired ? -1 : 1)
        let pair = try Pair(
            client: ClientContext(trust: .pem(Pair.authority.certificatePEM), identity: try issued.identity()),
            server: ServerContext(
                identity: Pair.identity, clientCertificates: .required(.pem(Pair.authority.certificatePEM))))
        let error = #expect(throws: TLSError.self) { try pair.settle() }
        #expect(error?.isCertificateRefused == true)
        #expect(error?.text.contains(isExpired ? "certificate expired" : "unknown ca") == true, "\(error?.text ?? "")")
    }
}
