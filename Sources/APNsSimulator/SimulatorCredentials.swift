internal import Glibc
package import TLS

/// The certificates and keys of a simulator and its clients, stored in a directory if one is set.
package struct SimulatorCredentials: Sendable {
    /// The id of the provider key. Like Apple's ids it has ten characters.
    package static let keyID = "SIMULATOR1"
    package static let teamID = "TEAM123456"
    package static let bundleID = "com.example.app"

    package var authority: CertificateAuthority
    /// The provider's private key as PKCS#8 in PEM, the format of Apple's `.p8` files.
    package var providerKeyPEM: String
    /// A client certificate for `bundleID`.
    package var clientCertificatePEM: String
    package var clientKeyPEM: String
    /// The absolute path of the directory, or `nil` if the credentials are in memory only.
    package var directory: String?

    package var caPEM: String { authority.certificatePEM }
    package var providerKeyFile: String? { directory.map { "\($0)/AuthKey_\(Self.keyID).p8" } }

    /// Reads the credentials from the directory and creates missing ones.
    package init(directory: String?) throws(SimulatorError) {
        do {
            self.directory = try directory.map { try Files.makeDirectory($0) }
            // Without the lock, two simulators that start in a new directory at the same time would replace each
            // other's files.
            let lock = try directory.map { try Files.lock($0) }
            defer { if let lock { close(lock) } }
            let (pair, isNew) = try Self.kept(in: directory, ["ca.pem", "ca-key.pem"]) {
                let made = try CertificateAuthority(commonName: "apns-worker simulator")
                return [made.certificatePEM, made.keyPEM]
            }
            let authority = try CertificateAuthority(certificatePEM: pair[0], keyPEM: pair[1])
            let key = try Self.kept(in: directory, ["AuthKey_\(Self.keyID).p8"]) { [try SelfSigned.privateKey()] }
            // Replace a client certificate that a previous CA issued, because it does not verify against the new CA.
            let client = try Self.kept(in: directory, ["client.pem", "client-key.pem"], isStale: isNew) {
                let made = try authority.issueClient(bundleID: Self.bundleID)
                return [made.certificatePEM, made.keyPEM]
            }
            self.authority = authority
            providerKeyPEM = key.texts[0]
            (clientCertificatePEM, clientKeyPEM) = (client.texts[0], client.texts[1])
        } catch let error as SimulatorError {
            throw error
        } catch {
            throw SimulatorError(
                "cannot load or create the certificates and keys in \(directory ?? "memory"): \(error)")
        }
    }

    /// Returns the contents of the named files. If a file is missing or `isStale` is true, creates all files anew and
    /// returns true as `isNew`. Without a directory, always creates the contents, in memory only.
    private static func kept(
        in directory: String?, _ names: [String], isStale: Bool = false, make: () throws -> [String]
    ) throws -> (texts: [String], isNew: Bool) {
        if let directory, !isStale {
            let texts = try names.compactMap { try Files.read("\(directory)/\($0)") }
            if texts.count == names.count { return (texts, false) }
        }
        let texts = try make()
        guard let directory else { return (texts, true) }
        for (name, text) in zip(names, texts) {
            let isPrivate = name != "ca.pem" && name != "client.pem"
            try Files.write(text, to: "\(directory)/\(name)", isPrivate: isPrivate)
        }
        return (texts, true)
    }
}

/// Functions to create and lock directories, and to read and write small text files.
enum Files {
    /// Creates a directory unless it exists. Returns its absolute path with symbolic links resolved.
    static func makeDirectory(_ path: String) throws(SimulatorError) -> String {
        guard mkdir(path, 0o755) == 0 || errno == EEXIST, let found = realpath(path, nil) else {
            throw SimulatorError(errno: "cannot create the directory \(path)")
        }
        defer { free(found) }
        return String(cString: found)
    }

    /// Returns the first 64 KiB of a file, or `nil` if the file does not exist.
    static func read(_ path: String) throws(SimulatorError) -> String? {
        guard let file = fopen(path, "re") else {
            if errno == ENOENT { return nil }
            throw SimulatorError(errno: "cannot read \(path)")
        }
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        if ferror(file) != 0 { throw SimulatorError(errno: "cannot read \(path)") }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }

    /// Locks a directory until the returned descriptor is closed.
    static func lock(_ directory: String) throws(SimulatorError) -> Int32 {
        let fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard fd >= 0, flock(fd, LOCK_EX) == 0 else {
            throw SimulatorError(errno: "cannot lock the directory \(directory)")
        }
        return fd
    }

    /// Replaces a file atomically. Private files are readable by the owner only.
    static func write(_ text: String, to path: String, isPrivate: Bool) throws(SimulatorError) {
        let draft = "\(path).new"
        let fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, isPrivate ? 0o600 : 0o644)
        guard fd >= 0 else { throw SimulatorError(errno: "cannot write \(path)") }
        defer { close(fd) }
        guard Glibc.write(fd, text, text.utf8.count) == text.utf8.count, rename(draft, path) == 0 else {
            throw SimulatorError(errno: "cannot write \(path)")
        }
    }
}
