internal import Glibc
package import TLS

/// What a client needs to trust the simulator and be trusted by it; made once, kept in a directory if there is one.
package struct SimulatorCredentials: Sendable {
    /// Of the key that is made: ten characters, as Apple's.
    package static let keyID = "SIMULATOR1"
    package static let teamID = "TEAM123456"
    package static let bundleID = "com.example.app"

    package var authority: CertificateAuthority
    /// The provider's private key, PKCS#8 in PEM, as Apple's `.p8`.
    package var providerKeyPEM: String
    /// A client certificate for `bundleID`, for providers that use one.
    package var clientCertificatePEM: String
    package var clientKeyPEM: String
    /// Where they are; `nil`: in memory only.
    package var directory: String?

    package var caPEM: String { authority.certificatePEM }
    package var caFile: String? { directory.map { "\($0)/ca.pem" } }
    package var providerKeyFile: String? { directory.map { "\($0)/AuthKey_\(Self.keyID).p8" } }
    package var clientCertificateFile: String? { directory.map { "\($0)/client.pem" } }
    package var clientKeyFile: String? { directory.map { "\($0)/client-key.pem" } }

    /// Reads them from the directory, and makes what is missing there.
    package init(directory: String?) throws(SimulatorError) {
        self.directory = directory
        do {
            guard let directory else {
                authority = try CertificateAuthority(commonName: "apns-worker simulator")
                providerKeyPEM = try SelfSigned.privateKey()
                let client = try authority.issueClient(bundleID: Self.bundleID)
                (clientCertificatePEM, clientKeyPEM) = (client.certificatePEM, client.keyPEM)
                return
            }
            try Files.makeDirectory(directory)
            // Two that start at once in a new directory would each replace what the other made.
            let lock = try Files.lock(directory)
            defer { close(lock) }
            var isNew = false
            if let certificate = try Files.read("\(directory)/ca.pem"),
                let key = try Files.read("\(directory)/ca-key.pem")
            {
                authority = try CertificateAuthority(certificatePEM: certificate, keyPEM: key)
            } else {
                isNew = true
                authority = try CertificateAuthority(commonName: "apns-worker simulator")
                try Files.write(authority.certificatePEM, to: "\(directory)/ca.pem", isPrivate: false)
                try Files.write(authority.keyPEM, to: "\(directory)/ca-key.pem", isPrivate: true)
            }
            let keyFile = "\(directory)/AuthKey_\(Self.keyID).p8"
            if let key = try Files.read(keyFile) {
                providerKeyPEM = key
            } else {
                providerKeyPEM = try SelfSigned.privateKey()
                try Files.write(providerKeyPEM, to: keyFile, isPrivate: true)
            }
            if !isNew, let certificate = try Files.read("\(directory)/client.pem"),
                let key = try Files.read("\(directory)/client-key.pem")
            {
                (clientCertificatePEM, clientKeyPEM) = (certificate, key)
            } else {
                let client = try authority.issueClient(bundleID: Self.bundleID)
                (clientCertificatePEM, clientKeyPEM) = (client.certificatePEM, client.keyPEM)
                try Files.write(client.certificatePEM, to: "\(directory)/client.pem", isPrivate: false)
                try Files.write(client.keyPEM, to: "\(directory)/client-key.pem", isPrivate: true)
            }
        } catch let error as SimulatorError {
            throw error
        } catch {
            throw SimulatorError("certificates and keys in \(directory ?? "memory"): \(error)")
        }
    }
}

/// The few things done with files: whole small texts, read and written.
enum Files {
    static func makeDirectory(_ path: String) throws(SimulatorError) {
        guard mkdir(path, 0o755) == 0 || errno == EEXIST else { throw failure("cannot make the directory \(path)") }
    }

    /// `nil`: there is no such file.
    static func read(_ path: String, limit: Int = 1 << 20) throws(SimulatorError) -> String? {
        let fd = open(path, O_RDONLY | O_CLOEXEC)
        if fd < 0, errno == ENOENT { return nil }
        guard fd >= 0 else { throw failure("cannot read \(path)") }
        defer { close(fd) }
        var bytes: [UInt8] = []
        while bytes.count < limit {
            var piece = [UInt8](repeating: 0, count: 16 * 1024)
            let count = Glibc.read(fd, &piece, piece.count)
            guard count >= 0 else { throw failure("cannot read \(path)") }
            if count == 0 { break }
            bytes += piece[..<count]
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Keeps other processes from what they lock the same directory for, until the descriptor that is returned is
    /// closed; waits for them 10 s.
    static func lock(_ directory: String) throws(SimulatorError) -> Int32 {
        let fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard fd >= 0 else { throw failure("cannot open the directory \(directory)") }
        var tries = 0
        while flock(fd, LOCK_EX | LOCK_NB) != 0 {
            guard errno == EWOULDBLOCK || errno == EINTR, tries < 1_000 else {
                let error = failure("cannot lock the directory \(directory)")
                close(fd)
                throw error
            }
            tries += 1
            usleep(10_000)
        }
        return fd
    }

    /// Replaces a file, whole or not at all; private ones can be read by their owner only.
    static func write(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
        let draft = "\(path).new"
        try writeDraft(text, to: draft, isPrivate: isPrivate)
        guard rename(draft, path) == 0 else { throw failure("cannot write \(path)") }
    }

    private static func writeDraft(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
        let fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard fd >= 0 else { throw failure("cannot write \(path)") }
        defer { close(fd) }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(fd, $0.baseAddress, $0.count) }
            guard count > 0 else { throw failure("cannot write \(path)") }
            bytes = bytes.dropFirst(count)
        }
    }

    private static func failure(_ what: String) -> SimulatorError {
        SimulatorError("\(what): \(String(cString: strerror(errno)))")
    }
}
