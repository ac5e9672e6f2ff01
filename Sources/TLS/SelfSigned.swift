/// Certificates and keys for simulator, demo and tests; never for production. All keys are EC P-256.
package enum SelfSigned {
    /// A private key in PEM as Apple's `.p8` has it (PKCS#8, not encrypted).
    package static func privateKey() throws(TLSError) -> String { fatalError("not yet") }
}

/// A certificate authority made on the spot.
package struct CertificateAuthority: Sendable {
    package let certificatePEM: String
    package let keyPEM: String

    package init(commonName: String = "apns-worker test CA") throws(TLSError) { fatalError("not yet") }
    /// One made before, to be used again.
    package init(certificatePEM: String, keyPEM: String) { fatalError("not yet") }

    package struct Issued: Sendable {
        package var certificatePEM: String
        package var keyPEM: String
        package func identity() throws(TLSError) -> Identity { fatalError("not yet") }
    }

    /// A server certificate, valid for `localhost`, `127.0.0.1`, `::1` and the names given (DNS names or IP addresses).
    /// `validForDays` may be negative: expired already.
    package func issueServer(names: [String] = [], validForDays: Int = 825) throws(TLSError) -> Issued {
        fatalError("not yet")
    }

    /// A server certificate for these names only.
    package func issueServer(onlyFor names: [String], validForDays: Int = 825) throws(TLSError) -> Issued {
        fatalError("not yet")
    }

    /// A client certificate as Apple's: the bundle id is `UID` of the subject.
    package func issueClient(bundleID: String, validForDays: Int = 395) throws(TLSError) -> Issued {
        fatalError("not yet")
    }
}
