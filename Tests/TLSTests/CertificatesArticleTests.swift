import Foundation
import TLS
import Testing

/// The commands of the article on certificates, run as they stand there, one after the other.
@Suite(.enabled(if: OpenSSLCommand.isThere, "no openssl command")) struct CertificatesArticleTests {
    private let folder: Folder

    init() throws { folder = try Folder() }

    private static func commands() throws -> [String] {
        let path = "../../Sources/Worker/Worker.docc/Certificates.md"
        let place = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: path)
            .standardizedFileURL
        return try String(contentsOf: place, encoding: .utf8).components(separatedBy: "```sh\n").dropFirst()
            .map { $0.components(separatedBy: "```")[0] }
    }

    /// What it writes, to either place; throws unless it ends with 0.
    private func run(_ script: String) throws -> String {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/bash")
        process.arguments = ["-euo", "pipefail", "-c", script]
        process.currentDirectoryURL = URL(fileURLWithPath: folder.path)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        process.standardInput = FileHandle.nullDevice
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        guard process.terminationStatus == 0 else { throw Failed(text: "\(script)\n\(text)") }
        return text
    }

    private struct Failed: Error { var text: String }

    private func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: folder.path(name)) }

    /// Apple's part: a certificate for two topics, of the request.
    private func sign() throws {
        try folder.write(
            """
            [req]
            distinguished_name = name
            [name]
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
        _ = try run(
            """
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -out ca.pem -subj '/CN=Apple' -days 400
            openssl req -x509 -in request.csr -CA ca.pem -CAkey ca-key.pem -days 395 -config apple.cnf \
                -extensions apple -subj '/UID=com.example.shop/CN=Apple Push Services: com.example.shop' \
                -outform DER -out aps.cer
            """)
    }

    /// Keychain's part: bundles in the encryption of today and of before, and one of the key alone.
    private func export() throws {
        _ = try run(
            """
            openssl pkcs12 -export -in cert.pem -inkey key.pem -out app.p12 -passout file:pass
            openssl pkcs12 -export -legacy -in cert.pem -inkey key.pem -out keychain.p12 -passout file:pass
            openssl pkcs12 -export -nocerts -inkey key.pem -out key.p12 -passout file:pass
            """)
    }

    private func expectUse(_ identity: @autoclosure () throws -> Identity, _ what: String) {
        #expect(throws: Never.self, "\(what)") {
            let details = try identity().details
            #expect(details.userID == "com.example.shop")
            #expect(details.topics == ["com.example.shop", "com.example.shop.voip"])
        }
    }

    /// All that is there by now can be used, each in its form.
    private func expectAllOfUse(after command: String) {
        let key = CredentialSource.file(folder.path("key.pem"))
        expectUse(try Identity(certificate: .file(folder.path("aps.cer")), key: key), command)
        if has("cert.pem") { expectUse(try Identity(certificate: .file(folder.path("cert.pem")), key: key), command) }
        if has("both.pem") { expectUse(try Identity(certificate: .file(folder.path("both.pem"))), command) }
        if has("locked.pem") {
            let locked = CredentialSource.file(folder.path("locked.pem"))
            expectUse(
                try Identity(certificate: .file(folder.path("cert.pem")), key: locked, passphrase: "secret"), command)
            #expect(throws: TLSError.self) { try Identity(certificate: .file(folder.path("cert.pem")), key: locked) }
        }
        for name in ["app.p12", "keychain.p12"] where has(name) {
            expectUse(try Identity(pkcs12: .file(folder.path(name)), passphrase: "secret"), command)
        }
    }

    @Test func `Each command does what it says`() throws {
        try folder.write("secret\n", "pass")
        let commands = try Self.commands()
        #expect(commands.count == 13)
        var said = ""
        for command in commands {
            // A result is this command's, not that of one before.
            for match in command.matches(of: /-out (\S+)/) where match.1 != "key.pem" || !command.contains("-in locked")
            {
                if !command.contains("-in \(match.1)") {
                    try? FileManager.default.removeItem(atPath: folder.path("\(match.1)"))
                }
            }
            said += try run(command)
            if !has("aps.cer") { try sign() }
            if has("cert.pem"), !has("app.p12") { try export() }
            expectAllOfUse(after: command)
        }
        // OpenSSL 3.0 writes spaces around the sign, 3.5 none.
        #expect(said.replacingOccurrences(of: " = ", with: "=").contains("UID=com.example.shop"))
        #expect(said.contains("Certificate will not expire"))
        #expect(said.contains("com.example.shop.voip"))
        #expect(said.contains("1.2.840.113635.100.6.3.2:") && !said.contains("1.2.840.113635.100.6.3.1:"))
        let sums = said.split(separator: "\n").suffix(2).compactMap { $0.split(separator: " ").last }
        #expect(sums.count == 2 && sums[0] == sums[1] && sums[0].count == 64, "\(sums)")
    }

    /// What it says of OpenSSL 3.
    @Test func `Without the word the old encryption is refused`() throws {
        try folder.write("secret\n", "pass")
        let commands = try Self.commands()
        _ = try run(commands[0])
        try sign()
        _ = try run(commands[1])
        try export()
        let command = try #require(commands.first { $0.contains("-legacy") }).replacingOccurrences(
            of: "-legacy ", with: "")
        let error = #expect(throws: Failed.self) { try run(command) }
        #expect(error?.text.contains("unsupported") == true && error?.text.contains("RC2-40-CBC") == true)
    }
}
