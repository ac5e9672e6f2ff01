import TLS
import Testing

@Suite struct VerificationTests {
    @Test(arguments: ["localhost", "127.0.0.1", "::1", "api.push.example", "localhost."])
    func namesInTheCertificateAreAccepted(hostName: String) throws {
        try Pair(hostName: hostName).settle()
    }

    @Test(arguments: ["example.com", "127.0.0.2", "::2", "push.example", "x.api.push.example", "localhost.example"])
    func otherNamesAreRefused(hostName: String) throws {
        let pair = try Pair(hostName: hostName)
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains(hostName) == true)
        #expect(error?.text.contains("for another name") == true)
        #expect(!pair.client.isHandshakeComplete)
        #expect(!pair.client.pendingOutput.isEmpty, "an alert for the server")
    }

    @Test(arguments: ["", "a b\u{0}c"]) func whatIsNoNameIsRefusedAtOnce(hostName: String) throws {
        #expect(failure { _ = try Pair(hostName: hostName) }?.kind == .verification)
    }

    @Test func anotherAuthorityIsRefused() throws {
        let other = try CertificateAuthority(commonName: "other")
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("not trusted") == true)
        #expect(error?.text.contains("(tls.ca_file names the authorities to trust") == true)
    }

    @Test func anotherAuthorityOfTheSameNameIsRefused() throws {
        let other = try CertificateAuthority()
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("not trusted: certificate signature failure (tls.ca_file names") == true)
    }

    @Test func theSystemDoesNotTrustOurAuthority() throws {
        let pair = try Pair(client: ClientOptions(trust: .system))
        #expect(failure { try pair.settle() }?.kind == .verification)
    }

    @Test func verificationCanBeTurnedOff() throws {
        let pair = try Pair(hostName: "anything.example", client: ClientOptions(trust: .anyone))
        try pair.settle()
        #expect(pair.client.isHandshakeComplete)
    }

    @Test func anExpiredCertificateIsRefused() throws {
        let expired = try Pair.authority.issueServer(validForDays: -2).identity()
        let pair = try Pair(server: ServerOptions(identity: expired))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .verification)
        #expect(error?.text.contains("expired") == true)
        #expect(error?.text.contains("tls.ca_file") == false, "another authority would not help")
    }

    @Test func theServerLearnsWhyItWasRefused() throws {
        let other = try CertificateAuthority(commonName: "other")
        let pair = try Pair(client: ClientOptions(trust: .pem(other.certificatePEM)))
        _ = failure { try pair.settle() }
        let error = failure { _ = try pair.give(pair.take(pair.client), pair.server, &pair.atServer) }
        #expect(error?.kind == .protocolFailure)
        #expect(error?.text.contains("unknown ca") == true)
    }

    @Test func protocolsThatDoNotMatchFailOnBothSides() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: ["h2"]),
            server: ServerOptions(identity: Pair.identity, alpn: ["http/1.1"]))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .applicationProtocol)
        #expect(error?.text == "localhost does not speak h2 (ALPN)")
    }

    @Test func aServerWithoutALPNFailsAClientThatNeedsIt() throws {
        let pair = try Pair(server: ServerOptions(identity: Pair.identity, alpn: []))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .applicationProtocol)
        #expect(error?.text.contains("does not speak h2") == true)
    }

    @Test func withoutALPNOnBothSidesNoneIsAgreed() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: []),
            server: ServerOptions(identity: Pair.identity, alpn: ["h2"]))
        try pair.settle()
        #expect(pair.client.applicationProtocol == nil)
        #expect(pair.server.applicationProtocol == nil)
    }

    @Test func theServersOrderOfProtocolsDecides() throws {
        let pair = try Pair(
            client: ClientOptions(trust: .pem(Pair.authority.certificatePEM), alpn: ["http/1.1", "h2"]),
            server: ServerOptions(identity: Pair.identity, alpn: ["h2", "http/1.1"]))
        try pair.settle()
        #expect(pair.client.applicationProtocol == "h2")
    }

    @Test(arguments: ["", String(repeating: "x", count: 256)]) func aProtocolsNameHasALimit(name: String) {
        #expect(failure { _ = try ClientContext(ClientOptions(alpn: [name])) }?.kind == .credential)
    }

    @Test func aClientCertificateIsSeenByTheServer() throws {
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

    @Test func aRequestedClientCertificateIsNeitherVerifiedNorNeeded() throws {
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

    @Test func aMissingClientCertificateFailsTheClientWhenItReads() throws {
        let pair = try Pair(
            server: ServerOptions(
                identity: Pair.identity, clientCertificates: .required(.pem(Pair.authority.certificatePEM))))
        let error = failure { try pair.settle() }
        #expect(error?.kind == .protocolFailure)
        #expect(error?.text.contains("certificate required") == true)
    }
}
