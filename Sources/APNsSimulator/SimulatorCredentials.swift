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
