internal import COpenSSL
internal import Glibc

/// The fields of a certificate that the worker and the simulator use.
package struct CertificateDetails: Hashable, Sendable {
    /// `UID` of the subject: the bundle id in Apple's provider certificates.
    package var userID: String?
    /// The start of the certificate's validity, in milliseconds since the epoch.
    package var notBeforeMs: Int64
    package var notAfterMs: Int64
    /// The day on which validity starts, in UTC, such as `2026-01-31`.
    package var notBeforeDay: String
    package var notAfterDay: String
    /// The topics in Apple's extension 1.2.840.113635.100.6.3.6. If empty, `userID` is the only topic.
    package var topics: [String]
    /// Whether the certificate is for development (extension 1.2.840.113635.100.6.3.1). A certificate for production
    /// has the extension …6.3.2.
    package var isForDevelopment: Bool
    package var isForProduction: Bool

    /// Returns when the certificate expires or expired, such as `expires on 2026-01-31`.
    package func expiry(nowMs: Int64) -> String { "\(notAfterMs <= nowMs ? "expired" : "expires") on \(notAfterDay)" }

    /// Reads the first certificate of a PEM text.
    package init(_ pem: CredentialSource) throws(TLSError) { self.init(try PEM(pem).certificates()[0]) }

    /// Reads all certificates of a PEM text.
    package static func all(in pem: CredentialSource) throws(TLSError) -> [Self] {
        try PEM(pem).certificates().map { Self($0) }
    }

    init(_ certificate: Certificate) {
        // X509_get_subject_name(3) returns an internal pointer, which must not be freed.
        userID = unsafe Self.entry(X509_get_subject_name(certificate.raw), NID_userId)
        (notBeforeMs, notBeforeDay) = unsafe Self.moment(X509_get0_notBefore(certificate.raw))
        (notAfterMs, notAfterDay) = unsafe Self.moment(X509_get0_notAfter(certificate.raw))
        topics = Self.appleExtension(6, of: certificate).map(Self.texts) ?? []
        isForDevelopment = Self.appleExtension(1, of: certificate) != nil
        isForProduction = Self.appleExtension(2, of: certificate) != nil
    }

    /// Returns the DER of the extension 1.2.840.113635.100.6.3.`number`, or `nil` if the certificate lacks it.
    private static func appleExtension(_ number: Int, of certificate: Certificate) -> [UInt8]? {
        // OBJ_txt2obj(3): the caller must free the result. The argument 1 allows only the numerical form.
        let identifier = unsafe OBJ_txt2obj("1.2.840.113635.100.6.3.\(number)", 1)
        defer { unsafe ASN1_OBJECT_free(identifier) }
        let index = unsafe X509_get_ext_by_OBJ(certificate.raw, identifier, -1)
        guard index >= 0 else { return nil }
        // Both functions return internal pointers, which must not be freed.
        let data = unsafe X509_EXTENSION_get_data(X509_get_ext(certificate.raw, index))
        return unsafe Array(
            UnsafeBufferPointer(start: ASN1_STRING_get0_data(data), count: Int(ASN1_STRING_length(data))))
    }

    /// Returns the UTF8Strings in a SEQUENCE. In Apple's extension they are topics, and each one is followed by a
    /// SEQUENCE with the topic's kind.
    private static func texts(_ der: [UInt8]) -> [String] {
        var texts: [String] = []
        unsafe der.withUnsafeBufferPointer { der in
            var start = der.baseAddress
            // d2i_ASN1_SEQUENCE_ANY(3): the caller must free the result.
            guard let elements = unsafe d2i_ASN1_SEQUENCE_ANY(nil, &start, der.count) else { return ErrorQueue.clear() }
            defer { unsafe openssl_elements_free(elements) }
            for index in unsafe 0..<openssl_elements_count(elements) {
                guard let text = unsafe openssl_element_utf8(openssl_elements_at(elements, index)) else { continue }
                let bytes = unsafe UnsafeBufferPointer(
                    start: ASN1_STRING_get0_data(text), count: Int(ASN1_STRING_length(text)))
                texts.append(unsafe String(decoding: bytes, as: UTF8.self))
            }
        }
        return texts
    }

    private static func entry(_ name: OpaquePointer?, _ identifier: Int32) -> String? {
        let index = unsafe X509_NAME_get_index_by_NID(name, identifier, -1)
        guard index >= 0 else { return nil }
        let data = unsafe X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, index))
        var utf8: UnsafeMutablePointer<UInt8>?
        // ASN1_STRING_to_UTF8(3) allocates a string, which must be freed with OPENSSL_free.
        let count = unsafe ASN1_STRING_to_UTF8(&utf8, data)
        guard count >= 0, let bytes = unsafe utf8 else { return nil }
        defer { unsafe CRYPTO_free(bytes, nil, 0) }
        return unsafe String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    }

    private static func moment(_ time: UnsafePointer<ASN1_TIME>?) -> (ms: Int64, day: String) {
        var parts = unsafe tm()
        guard unsafe ASN1_TIME_to_tm(time, &parts) == 1 else { return (0, "unknown") }
        let day = unsafe [parts.tm_year + 1_900, parts.tm_mon + 1, parts.tm_mday].map { number in
            number < 10 ? "0\(number)" : "\(number)"
        }
        return unsafe (Int64(timegm(&parts)) * 1000, day.joined(separator: "-"))
    }
}
