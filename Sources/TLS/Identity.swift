/// A certificate, its chain and its private key. Immutable; any thread.
package final class Identity: Sendable {
    /// From PEM text. The first certificate is ours, the rest is its chain; `key` may be the same text.
    ///
    /// - Throws: `TLSError` of kind `credential`: not PEM, no key, wrong or missing passphrase, key of another certificate.
    package init(certificatePEM: String, keyPEM: String, passphrase: String? = nil) throws(TLSError) {
        fatalError("not yet")
    }

    /// The same from files; errors name the file.
    package convenience init(certificateFile: String, keyFile: String, passphrase: String? = nil) throws(TLSError) {
        fatalError("not yet")
    }
}
