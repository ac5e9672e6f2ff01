import Foundation
import TLS
import TestSupport
import Testing

@Suite struct SigningKeyTests {
    @Test func `The public key verifies its own key's signatures and no others`() throws {
        let pem = try SelfSigned.privateKey()
        #expect(pem.hasPrefix("-----BEGIN PRIVATE KEY-----\n"))
        let key = try SigningKey(pem: pem)
        let message = Array("eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0".utf8)
        for _ in 0..<100 {
            let signature = key.sign(message)
            #expect(signature.count == 64)
            #expect(key.verificationKey.isValid(signature: signature, of: message))
            #expect(try VerificationKey(pem: key.verificationKey.pem).isValid(signature: signature, of: message))
            #expect(!key.verificationKey.isValid(signature: signature, of: message + [0]))
            var broken = signature
            broken[Int.random(in: 0..<64)] ^= 1
            #expect(!key.verificationKey.isValid(signature: broken, of: message))
        }
        #expect(!key.verificationKey.isValid(signature: [UInt8](repeating: 0, count: 64), of: message))
        #expect(!key.verificationKey.isValid(signature: [1, 2, 3], of: message))
        #expect(
            try !SigningKey(pem: SelfSigned.privateKey()).verificationKey.isValid(
                signature: key.sign(message), of: message))
    }

    /// The signature of RFC 7515, A.3, was created by another implementation.
    @Test func `The example signature of RFC 7515 is valid`() throws {
        let pem = """
            -----BEGIN PUBLIC KEY-----
            MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEf83OJ3D2xF1Bg8vub9tLe1gHMzV7
            6e8Tus9uPHvRVEXH8UTNG72bfocs3+257rn0s2ldbqkLJK2KRiMohYjlrQ==
            -----END PUBLIC KEY-----
            """
        let message =
            "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
        let signature = Data(
            base64Encoded: "DtEhU3ljbEg8L38VWAfUAqOyKAM6+Xx+F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3+Kg6NU1Q==")!
        #expect(try VerificationKey(pem: pem).isValid(signature: Array(signature), of: Array(message.utf8)))
    }

    /// Keys and certificates that users may configure by mistake, created with the openssl command.
    @Test(
        .enabled(if: OpenSSLCommand.isThere, "no openssl command"),
        arguments: [
            ("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048", "is a key for RSA"),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384", "on the curve secp384r1"),
            ("genpkey -algorithm EC -pkeyopt ec_paramgen_curve:secp256k1", "on the curve secp256k1"),
            ("genpkey -algorithm ED25519", "is a key for ED25519"),
            (
                "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -aes-128-cbc -pass pass:secret",
                "the private key is encrypted"
            ),
            (
                "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /dev/null -subj /CN=x",
                "contains no private key, only: CERTIFICATE"
            ),
        ])
    func `The error of an unsuitable key names the reason and quotes no secret`(command: String, words: String) throws {
        let pem = try OpenSSLCommand.run(command)
        let error = #expect(throws: TLSError.self) { _ = try SigningKey(.text(pem, name: "AuthKey.p8")) }
        #expect(error?.text.hasPrefix("AuthKey.p8: ") == true)
        #expect(error?.text.contains(words) == true, "\(error?.text ?? "")")
        #expect(error?.text.contains("secret") == false)
    }

    /// The SEC1 format, which `openssl ecparam -genkey` writes.
    @Test(.enabled(if: OpenSSLCommand.isThere, "no openssl command"))
    func `A key in the traditional EC format is read`() throws {
        let pem = try OpenSSLCommand.run("ecparam -name prime256v1 -genkey")
        #expect(pem.contains("BEGIN EC PRIVATE KEY"))
        #expect(try SigningKey(pem: pem).sign([1]).count == 64)
    }

    @Test(
        arguments: [
            ("", "is empty"), ("garbage", "is not PEM"),
            ("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "cannot be decoded"),
            ("-----BEGIN PRIVATE KEY-----\nMIGH", "it is cut off before -----END PRIVATE KEY-----"),
            (" \n", "is empty"), ("/etc/keys/AuthKey_ABC123DEFG.p8\n", "it is the name of a file"),
            (
                "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
                "contains no private key, only: PUBLIC KEY"
            ),
        ])
    func `The error of a text that is not a private key names the reason`(text: String, words: String) {
        let error = #expect(throws: TLSError.self) { _ = try SigningKey(pem: text) }
        #expect(error?.text.contains(words) == true, "\(error?.text ?? "")")
    }

    /// Editors, shells and environment variables change keys in these ways.
    @Test func `A key is read despite changed line ends, quotes and base64`() throws {
        let pem = try SelfSigned.privateKey()
        func breaks(_ text: String) -> String { pem.replacingOccurrences(of: "\n", with: text) }
        let digits = pem.split(separator: "\n").dropFirst().dropLast().joined()
        let der = try #require(Data(base64Encoded: digits))
        let texts = [
            "Key ID: ABC\r\n" + breaks("\r\n") + "\r\n", breaks("\\n"), breaks("\\r\\n"), breaks(" "), breaks(""),
            breaks("\r"),
            "\"\(pem)\"", "'\(breaks("\\n"))'", "\u{FEFF}\(pem)", Data(pem.utf8).base64EncodedString(), digits,
            Data(pem.utf8).base64EncodedString(options: [.lineLength64Characters, .endLineWithCarriageReturn]),
        ]
        let wide = try [String.Encoding.utf16, .utf16LittleEndian, .utf16BigEndian].map { encoding in
            Array(try #require(pem.data(using: encoding)))
        }
        let forms = texts.map { Array($0.utf8) } + [Array(der)] + wide
        let expected = try SigningKey(pem: pem).verificationKey.pem
        for (index, form) in forms.enumerated() {
            #expect(try SigningKey(.bytes(form, name: "key")).verificationKey.pem == expected, "form \(index)")
        }
    }
}

@Suite struct IdentityTests {
    @Test(.enabled(if: OpenSSLCommand.isThere, "no openssl command")) func `An encrypted key needs its passphrase`()
        throws
    {
        let issued = try Pair.authority.issueServer()
        let folder = try TemporaryFolder()
        let plain = try folder.write(issued.keyPEM, "key.pem")
        for form in ["pkcs8 -topk8 -v2 aes-128-cbc -passout pass:open -in", "ec -aes128 -passout pass:open -in"] {
            let encrypted = try OpenSSLCommand.run("\(form) \(plain)")
            #expect(encrypted.contains("ENCRYPTED"))
            _ = try Identity(certificatePEM: issued.certificatePEM, keyPEM: encrypted, passphrase: "open")
            let wrong = #expect(throws: TLSError.self) {
                _ = try Identity(certificatePEM: issued.certificatePEM, keyPEM: encrypted, passphrase: "shut")
            }
            #expect(wrong?.text.contains("wrong passphrase?") == true)
            #expect(wrong?.text.contains("shut") == false)
            let none = #expect(throws: TLSError.self) {
                _ = try Identity(certificatePEM: issued.certificatePEM, keyPEM: encrypted)
            }
            #expect(none?.text == "key: the private key is encrypted and no passphrase was given")
        }
        withExtendedLifetime(folder) {}
    }

    @Test func `A certificate authority that is saved and loaded issues trusted certificates`() throws {
        let again = try CertificateAuthority(
            certificatePEM: Pair.authority.certificatePEM, keyPEM: Pair.authority.keyPEM)
        let pair = try Pair(server: ServerContext(identity: try again.issueServer().identity()))
        try pair.settle()
    }
}

enum OpenSSLCommand {
    static let isThere = FileManager.default.isExecutableFile(atPath: "/usr/bin/openssl")

    static func run(_ arguments: String) throws -> String {
        try ChildProcess.run("sh", ["-c", "openssl \(arguments) 2>/dev/null"]).text
    }
}
