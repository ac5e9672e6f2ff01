internal import Bytes
internal import COpenSSL

/// PEM text and the objects in it. Error texts begin with `name`.
struct PEM {
    let text: String
    let name: String

    init(text: String, name: String) { self.init(.text(text, name: name)) }

    /// Reads PEM that editors or shells may have changed: UTF-16, missing line breaks, spaces or a literal `\n` instead
    /// of line breaks, quotes around the text, or base64 of the whole text. Also reads a private key in DER.
    init(_ source: CredentialSource) {
        name = source.name
        var text = Self.text(of: source.bytes)
        if !text.contains("-----BEGIN "), let inner = Self.base64Decoded(Array(text.utf8)) {
            let decoded = Self.text(of: inner)
            if decoded.contains("-----BEGIN ") { text = decoded }
        }
        self.text = Self.withLines(text)
    }

    /// Returns the text of a file, or the PEM of a private key in DER.
    private static func text(of bytes: [UInt8]) -> String {
        if let pem = PrivateKey(der: bytes)?.pem { return pem }
        guard bytes.count > 1, bytes[0] == 0xFF || bytes[0] == 0xFE || bytes[0] == 0 || bytes[1] == 0 else {
            return String(decoding: bytes, as: UTF8.self)
        }
        // The text is UTF-16 if it begins with a byte order mark, or if one of the first two bytes is 0, because PEM is
        // ASCII.
        let isBigEndian = bytes[0] == 0xFE || bytes[0] == 0
        let units = stride(from: 0, to: bytes.count - 1, by: 2).map { at in
            UInt16(bytes[isBigEndian ? at : at + 1]) << 8 | UInt16(bytes[isBigEndian ? at + 1 : at])
        }
        return String(decoding: units, as: UTF16.self)
    }

    /// Splits each block into lines of 64 characters, as OpenSSL requires. A block with header lines is not changed.
    private static func withLines(_ text: String) -> String {
        var rest = text.replacing("\\r", with: "").replacing("\\n", with: "\n")[...]
        var result = ""
        while let begin = rest.firstRange(of: "-----BEGIN "),
            let head = rest[begin.upperBound...].firstRange(of: "-----"),
            let end = rest.firstRange(of: "-----END \(rest[begin.upperBound..<head.lowerBound])-----"),
            end.lowerBound >= head.upperBound
        {
            let body = rest[head.upperBound..<end.lowerBound].utf8.filter { !isFiller($0) }
            result += rest[..<begin.lowerBound] + "\n"
            if body.contains(UInt8(ascii: ":")) {
                result += rest[begin.lowerBound..<end.upperBound] + "\n"
            } else {
                let lines = stride(from: 0, to: body.count, by: 64).map { start in
                    String(decoding: body[start..<min(start + 64, body.count)], as: UTF8.self) + "\n"
                }
                result += "\(rest[begin.lowerBound..<head.upperBound])\n\(lines.joined())\(rest[end])\n"
            }
            rest = rest[end.upperBound...]
        }
        return result + rest
    }

    /// Returns the bytes that base64 text encodes, ignoring filler characters, or `nil` if it is not base64.
    static func base64Decoded(_ text: [UInt8]) -> [UInt8]? {
        let digits = text.filter { !isFiller($0) }
        return unsafe digits.withUnsafeBytes { unsafe Base64.standard.decode($0) }
    }

    /// Returns whether a byte is white space, a quote or a backslash, which are not base64 digits.
    private static func isFiller(_ byte: UInt8) -> Bool { byte <= 0x20 || byte == 0x22 || byte == 0x27 || byte == 0x5C }

    /// The labels of the PEM blocks, such as `PRIVATE KEY` and `CERTIFICATE`.
    var labels: [Substring] {
        text.split(separator: "-----BEGIN ").dropFirst(text.hasPrefix("-----BEGIN ") ? 0 : 1)
            .compactMap { block in
                guard let end = block.firstRange(of: "-----") else { return nil }
                return block[..<end.lowerBound]
            }
    }

    func failure(_ what: String) -> TLSError { TLSError("\(name): \(what)") }

    func certificates() throws(TLSError) -> [Certificate] {
        ErrorQueue.clear()
        var certificates: [Certificate] = []
        let labels = labels.filter { $0 == "CERTIFICATE" || $0 == "X509 CERTIFICATE" || $0 == "TRUSTED CERTIFICATE" }
        guard !labels.isEmpty else { throw failure(nothing(wanted: "certificate", label: "CERTIFICATE")) }
        unsafe withReader(text.utf8) { bio in
            // PEM_read_bio_X509(3) skips other blocks. The caller must free the certificate.
            while certificates.count < labels.count, let raw = unsafe PEM_read_bio_X509(bio, nil, nil, nil) {
                certificates.append(unsafe Certificate(adopting: raw))
            }
        }
        guard certificates.count == labels.count else {
            throw failure("a certificate in the file cannot be decoded: \(ErrorQueue.takeText())")
        }
        return certificates
    }

    func privateKey(passphrase: String?) throws(TLSError) -> PrivateKey {
        ErrorQueue.clear()
        guard let label = labels.first(where: { $0.hasSuffix("PRIVATE KEY") }) else {
            throw failure(nothing(wanted: "private key", label: "PRIVATE KEY"))
        }
        let isEncrypted = label == "ENCRYPTED PRIVATE KEY" || text.contains("Proc-Type: 4,ENCRYPTED")
        if isEncrypted, passphrase == nil {
            throw failure("the private key is encrypted and no passphrase was given")
        }
        // PEM_read_bio_PrivateKey(3): without a callback, `u` is the NUL-terminated passphrase. Always set `u`, because
        // OpenSSL would otherwise prompt on the terminal.
        let raw = unsafe withReader(text.utf8) { bio in
            unsafe (passphrase ?? "").withCString {
                unsafe PEM_read_bio_PrivateKey(bio, nil, nil, UnsafeMutableRawPointer(mutating: $0))
            }
        }
        if let raw = unsafe raw { return unsafe PrivateKey(adopting: raw) }
        let reason = ErrorQueue.takeText()
        guard text.contains("-----END \(label)-----") else {
            throw failure("the private key cannot be decoded: it is cut off before -----END \(label)-----")
        }
        throw failure(
            isEncrypted
                ? "the private key cannot be decrypted: wrong passphrase? (\(reason))"
                : "the private key cannot be decoded: \(reason)")
    }

    private func nothing(wanted: String, label: String) -> String {
        let labels = labels
        // Files of type .cer and .p12 are DER. They begin with a SEQUENCE (0x30, the character 0) longer than 127
        // bytes, whose length byte is not valid UTF-8.
        if text.unicodeScalars.starts(with: ["0", "\u{FFFD}"]) {
            return "is DER, not PEM: convert a .cer with openssl x509 -inform der, or a .p12 with openssl pkcs12"
        }
        if text.allSatisfy(\.isWhitespace) { return "is empty" }
        if labels.isEmpty, text.count < 300, text.contains(/\.(p8|pem|key|cer|crt)\s*$/) {
            return "is not PEM: it is the name of a file; use the setting that ends in file"
        }
        if labels.isEmpty { return "is not PEM: it has no line -----BEGIN \(label)----- and is not base64" }
        return "contains no \(wanted), only: \(Set(labels).sorted().joined(separator: ", "))"
    }
}

/// Calls `body` with a read-only memory BIO of these bytes.
func withReader<Result>(_ bytes: some Collection<UInt8>, _ body: (OpaquePointer) -> Result) -> Result {
    // An empty array may have a null base address, which BIO_new_mem_buf(3) rejects.
    unsafe (Array(bytes) + [0]).withUnsafeBufferPointer { bytes in
        // OpenSSL does not copy the memory, so it must outlive the BIO.
        let bio = unsafe BIO_new_mem_buf(bytes.baseAddress, Int32(bytes.count - 1))!
        defer { unsafe BIO_free(bio) }
        return unsafe body(bio)
    }
}

/// Returns the text that an OpenSSL function writes into a memory BIO, or `nil` if the function fails.
func writtenText(_ body: (OpaquePointer) -> Int32) -> String? {
    guard let bio = unsafe BIO_new(BIO_s_mem()) else { return nil }
    defer { unsafe BIO_free(bio) }
    guard unsafe body(bio) == 1 else { return nil }
    var text: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while true {
        let count = unsafe chunk.withUnsafeMutableBytes { unsafe BIO_read(bio, $0.baseAddress, Int32($0.count)) }
        guard count > 0 else { break }
        text += chunk[..<Int(count)]
    }
    return String(decoding: text, as: UTF8.self)
}
