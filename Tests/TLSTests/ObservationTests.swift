import Synchronization
import TLS
import Testing

@Suite struct ObservationTests {
    /// A handshake and one write: which messages, in which order, and records as long as they are on the wire.
    @Test func recordsAndMessagesAreTold() throws {
        let pair = try Pair()
        var seen: [SessionObservation] = []
        pair.client.observe { seen.append($0) }
        try pair.settle()
        let messages = seen.compactMap { observation -> UInt8? in
            guard case .handshake(_, let type, _) = observation else { return nil }
            return type
        }
        // RFC 8446, B.3: ClientHello, ServerHello, EncryptedExtensions, Certificate, CertificateVerify, Finished twice.
        #expect(Array(messages.prefix(7)) == [1, 2, 8, 11, 15, 20, 20])
        seen = []
        try pair.client.write(bytes(200))
        #expect(pair.client.pendingOutput.count == 222)
        #expect(seen == [.record(isSent: true, type: 23, length: 217)])
        try pair.settle()
        seen = []
        try pair.server.write(bytes(20_000))
        try pair.settle()
        #expect(
            seen == [
                .record(isSent: false, type: 23, length: 16_401), .record(isSent: false, type: 23, length: 3_633),
            ])
        seen = []
        pair.client.closeNotify()
        #expect(seen.contains(.alert(isSent: true, isFatal: false, code: 0)))
    }

    @Test func aCertificateSaysWhomItIsForAndWhoSignedIt() throws {
        let pair = try Pair()
        try pair.settle()
        let certificate = try #require(pair.client.peerCertificate)
        #expect(certificate.names.contains("DNS:localhost"), "\(certificate)")
        #expect(certificate.issuer.hasPrefix("CN="), "\(certificate)")
        #expect(pair.client.cipher.hasPrefix("TLS_"))
    }
}
