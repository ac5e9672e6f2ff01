import Foundation
import TLS
import TestSupport
import Testing

/// Client certificates in all common file formats, created with the openssl command.
@Suite(.serialized, .enabled(if: OpenSSLCommand.isThere, "no openssl command")) struct ClientCertificateTests {
    private let folder: TemporaryFolder
    private let issued: CertificateAuthority.Issued

    init() throws {
        folder = try TemporaryFolder()
        issued = try Pair.authority.issueClient(bundleID: "com.example.shop")
        try folder.write(issued.certificatePEM, "cert.pem")
        try folder.write(issued.keyPEM, "key.pem")
        try folder.write(Pair.authority.certificatePEM, "ca.pem")
    }

    /// Expects that a handshake with this client certificate succeeds.
    private func expectUse(_ identity: Identity) throws {
        #expect(identity.details.userID == "com.example.shop")
        let authority = Trust.pem(Pair.authority.certificatePEM)
        let pair = try Pair(
            client: ClientContext(trust: authority, identity: identity),
            server: ServerContext(identity: Pair.identity, clientCertificates: .required(authority)))
        try pair.settle()
        #expect(pair.server.peerCertificate?.userID == "com.example.shop")
    }

    private func expect(
        _ words: String, of identity: @autoclosure () throws -> Identity, at location: SourceLocation = #_sourceLocation
    ) {
        let error = #expect(throws: TLSError.self, sourceLocation: location) { _ = try identity() }
        #expect(error?.text == words, sourceLocation: location)
    }

    private func openssl(_ command: String, _ name: String) throws -> String {
        _ = try OpenSSLCommand.run("\(command) -out \(folder.path(name))")
        return folder.path(name)
    }

    private func export(_ options: String, _ name: String = "app.p12") throws -> String {
        try openssl(
            "pkcs12 -export -in \(folder.path("cert.pem")) -inkey \(folder.path("key.pem")) "
                + "-certfile \(folder.path("ca.pem")) \(options)", name)
    }

    @Test func `A certificate and its key are read from one file or from two`() throws {
        let both = try folder.write(issued.keyPEM + issued.certificatePEM + Pair.authority.certificatePEM, "both.pem")
        try expectUse(Identity(certificate: .file(both)))
        try expectUse(Identity(certificate: .file(folder.path("cert.pem")), key: .file(folder.path("key.pem"))))
    }

    @Test(arguments: [
        "-passout pass:open", "-legacy -passout pass:open", "-keypbe NONE -certpbe NONE -passout pass:open",
    ])
    func `A certificate bundle is read with its passphrase`(options: String) throws {
        let path = try export(options)
        try expectUse(Identity(pkcs12: .file(path), passphrase: "open"))
        let bytes = try Data(contentsOf: URL(fileURLWithPath: path))
        let lines = bytes.base64EncodedString(options: [.lineLength64Characters, .endLineWithLineFeed])
        try expectUse(Identity(pkcs12: .text(lines, name: "here"), passphrase: "open"))
        expect(
            "\(path): cannot be opened: wrong passphrase?", of: try Identity(pkcs12: .file(path), passphrase: "shut"))
        expect("\(path): is protected by a passphrase and none was given", of: try Identity(pkcs12: .file(path)))
    }

    @Test(arguments: ["-passout pass:", "-legacy -passout pass:"])
    func `A bundle with an empty passphrase is read without one`(options: String) throws {
        let path = try export(options)
        try expectUse(Identity(pkcs12: .file(path)))
        try expectUse(Identity(pkcs12: .file(path), passphrase: ""))
    }

    @Test func `A bundle without a checksum is refused`() throws {
        let path = try export("-nomac -passout pass:open")
        expect(
            "\(path): has no checksum (MAC), which OpenSSL requires; export it again",
            of: try Identity(pkcs12: .file(path), passphrase: "open"))
    }

    /// OpenSSL reads OPENSSL_MODULES, the folder of its providers, whenever it loads one.
    @Test func `The error of a bundle that needs the missing legacy provider names the provider`() throws {
        let path = try export("-legacy -passout pass:open")
        setenv("OPENSSL_MODULES", folder.path, 1)
        defer { unsetenv("OPENSSL_MODULES") }
        expect(
            "\(path): is encrypted in a way that OpenSSL 3 only reads with its legacy provider, which is not "
                + "installed (ossl-modules/legacy.so); export it again, or install the provider",
            of: try Identity(pkcs12: .file(path), passphrase: "open"))
    }

    @Test func `The error of an incomplete bundle names the missing part`() throws {
        let noKey = try openssl("pkcs12 -export -nokeys -in \(folder.path("cert.pem")) -passout pass:open", "nokey.p12")
        let noCertificate = try openssl(
            "pkcs12 -export -nocerts -inkey \(folder.path("key.pem")) -passout pass:open", "nocert.p12")
        let half = try folder.write(Data(contentsOf: URL(fileURLWithPath: noKey)).prefix(300), "half.p12")
        expect(
            "\(noKey): contains no private key; in Keychain, export the certificate together with its key",
            of: try Identity(pkcs12: .file(noKey), passphrase: "open"))
        expect(
            "\(noCertificate): contains no certificate for its private key",
            of: try Identity(pkcs12: .file(noCertificate), passphrase: "open"))
        for path in [folder.path("cert.pem"), half] {
            expect("\(path): is not PKCS#12", of: try Identity(pkcs12: .file(path)))
        }
        for text in ["not base 64!", "AAAA"] {
            expect("pkcs12: is not PKCS#12", of: try Identity(pkcs12: .text(text, name: "pkcs12")))
        }
    }

    @Test func `The error of an incomplete PEM file names the missing part`() throws {
        let (certificate, key) = (folder.path("cert.pem"), folder.path("key.pem"))
        let other = try folder.write(Pair.authority.issueClient(bundleID: "x").keyPEM, "other.pem")
        let der = try openssl("x509 -in \(certificate) -outform der", "cert.der")
        expect(
            "\(certificate): contains no private key, only: CERTIFICATE",
            of: try Identity(certificate: .file(certificate)))
        expect("\(key): contains no certificate, only: PRIVATE KEY", of: try Identity(certificate: .file(key)))
        for certificate in [certificate, der] {
            expect(
                "\(other): the private key does not match the certificate",
                of: try Identity(certificate: .file(certificate), key: .file(other)))
        }
        expect(
            "\(der): is DER, not PEM: convert a .cer with openssl x509 -inform der, or a .p12 with openssl pkcs12",
            of: try Identity(certificate: .file(certificate), key: .file(der)))
    }

    /// Apple's developer site provides the certificate as a `.cer` file. The private key is in another file.
    @Test func `A certificate in DER is read, and its key from another file`() throws {
        let key = folder.path("key.pem")
        let der = try openssl("x509 -in \(folder.path("cert.pem")) -outform der", "aps.cer")
        let bytes = try Array(Data(contentsOf: URL(fileURLWithPath: der)))
        try expectUse(Identity(certificate: .file(der), key: .file(key)))
        try expectUse(Identity(certificate: .bytes(bytes, name: "aps.cer"), key: .file(key)))
        expect(
            "\(der): is a certificate in DER, which cannot contain a private key; set key_file too",
            of: try Identity(certificate: .file(der)))
        let bundle = try export("-passout pass:open")
        let none = "is DER but not a certificate; for PKCS#12 (.p12, .pfx) use pkcs12_file"
        expect("\(bundle): \(none)", of: try Identity(certificate: .file(bundle)))
        // Truncated certificates.
        for count in stride(from: 2, to: bytes.count, by: 7) {
            let part = Array(bytes.prefix(count))
            expect("part: \(none)", of: try Identity(certificate: .bytes(part, name: "part"), key: .file(key)))
        }
    }

    @Test func `The details of an expired certificate contain its expiry date`() throws {
        let expired = try Pair.authority.issueClient(bundleID: "com.example.shop", validForDays: -3).identity()
        let formatter = DateFormatter()
        formatter.dateFormat = "yyyy-MM-dd"
        formatter.timeZone = TimeZone(identifier: "UTC")
        let day = Date(timeIntervalSince1970: Double(expired.details.notAfterMs) / 1_000)
        #expect(abs(day.timeIntervalSinceNow + 3 * 86_400) < 60)
        #expect(expired.details.notAfterDay == formatter.string(from: day))
    }

    /// The certificate is for several topics and has the extensions of a certificate that Apple issues.
    @Test func `The topics and environments are read from Apple's certificate extensions`() throws {
        let configuration = try folder.write(
            """
            [req]
            distinguished_name = name
            x509_extensions = apple
            prompt = no
            [name]
            UID = com.example.shop
            CN = Apple Push Services: com.example.shop
            [apple]
            1.2.840.113635.100.6.3.2 = ASN1:NULL
            1.2.840.113635.100.6.3.6 = ASN1:SEQUENCE:topics
            [topics]
            a = UTF8String:com.example.shop
            b = SEQUENCE:app
            c = UTF8String:com.example.shop.voip
            d = SEQUENCE:voip
            [app]
            a = UTF8String:app
            [voip]
            a = UTF8String:voip
            """, "apple.cnf")
        let certificate = folder.path("apple.pem")
        _ = try OpenSSLCommand.run(
            "req -x509 -new -key \(folder.path("key.pem")) -config \(configuration) -out \(certificate)")
        let details = try Identity(certificate: .file(certificate), key: .file(folder.path("key.pem"))).details
        #expect(details.topics == ["com.example.shop", "com.example.shop.voip"])
        #expect(details.isForProduction && !details.isForDevelopment)
        let plain = try issued.identity().details
        #expect(plain.topics.isEmpty && !plain.isForProduction && !plain.isForDevelopment)
    }
}
