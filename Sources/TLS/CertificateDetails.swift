internal import COpenSSL
internal import Glibc

/// What an operator or a simulator wants to know of a certificate.
package struct CertificateDetails: Hashable, Sendable {
    /// RFC 2253: `UID=com.example.shop,CN=Apple Push Services: com.example.shop`.
    package var subject: String
    /// `UID=` of the subject: the bundle id in Apple's provider certificates.
    package var userID: String?
    package var commonName: String?
    /// In milliseconds since the epoch.
    package var notBeforeMs: Int64
    package var notAfterMs: Int64

    init(_ certificate: Certificate) {
        // X509_get_subject_name(3): internal, not to be freed.
        let name = unsafe X509_get_subject_name(certificate.raw)
        subject =
            unsafe writtenText { unsafe X509_NAME_print_ex($0, name, 0, openssl_name_flags()) >= 0 ? 1 : 0 } ?? ""
        userID = unsafe Self.entry(name, NID_userId)
        commonName = unsafe Self.entry(name, NID_commonName)
        notBeforeMs = unsafe Self.milliseconds(X509_get0_notBefore(certificate.raw))
        notAfterMs = unsafe Self.milliseconds(X509_get0_notAfter(certificate.raw))
    }

    private static func entry(_ name: OpaquePointer?, _ identifier: Int32) -> String? {
        let index = unsafe X509_NAME_get_index_by_NID(name, identifier, -1)
        guard index >= 0 else { return nil }
        let data = unsafe X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index))
        var utf8: UnsafeMutablePointer<UInt8>?
        // ASN1_STRING_to_UTF8(3): allocates; to be freed with OPENSSL_free.
        let count = unsafe ASN1_STRING_to_UTF8(&utf8, data)
        guard count >= 0, let bytes = unsafe utf8 else { return nil }
        defer { unsafe CRYPTO_free(bytes, nil, 0) }
        return unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }

    private static func milliseconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int64 {
        var parts = unsafe tm()
        guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return 0 }
        return unsafe Int64(timegm(&parts)) * 1000
    }
}
