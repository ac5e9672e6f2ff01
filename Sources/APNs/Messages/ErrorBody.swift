internal import Glibc
package import PushRecords
internal import PushTransport

/// What the body of an error answer (or a GOAWAY's debug data) says: `{"reason": "…", "timestamp": …}`.
///
/// Parsed over lent bytes; only a reason not known by name costs a string.
package struct ErrorBody: Equatable, Sendable {
    package var reason: ReasonCode = .none
    /// With `reason == .other`: the word as it came, at most 200 bytes.
    package var text: String?
    /// Milliseconds since the epoch (`RecordTime`); 0: none, or none that can be one.
    package var timestampMs: Int64 = 0

    package init() {}

    /// Anything that is not one JSON object with a string `reason` leaves the reason out: the status decides then.
    package init(parsing body: UnsafeRawBufferPointer) {
        var scanner = Scanner(bytes: body)
        var found = ErrorBody()
        guard scanner.take("{") else { return }
        if !scanner.take("}") {
            repeat {
                guard let name = scanner.string(), scanner.take(":") else { return }
                if Self.equal(name, "reason") {
                    guard let value = scanner.string() else { return }
                    found.setReason(value)
                } else if Self.equal(name, "timestamp") {
                    guard let value = scanner.number() else { return }
                    found.timestampMs = RecordTime.checked(value)
                } else if !scanner.skipScalar() {
                    return
                }
            } while scanner.take(",")
            guard scanner.take("}") else { return }
        }
        guard scanner.isAtEnd else { return }
        self = found
    }

    private mutating func setReason(_ value: UnsafeRawBufferPointer) {
        guard !value.isEmpty else { return }
        if let code = ReasonCode(text: value) {
            reason = code
            text = nil
        } else {
            reason = .other
            text = String(decoding: value.prefix(200), as: UTF8.self)
        }
    }

    private static func equal(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
        bytes.count == word.utf8CodeUnitCount && memcmp(bytes.baseAddress!, word.utf8Start, bytes.count) == 0
    }
}

/// What the reason that a GOAWAY gives says about the connections after it.
enum GoAwayMeaning: Sendable, Equatable {
    /// The next connection will be refused, too: its reason is about the credential.
    case credentialRefused
    /// APNs closes this connection in its own interest (`Shutdown`, `IdleTimeout`); nothing is wrong with the next one.
    case leaves
    /// No reason, or none known: the error code decides.
    case unsaid
    /// Something was wrong with what we sent.
    case other

    init(_ reason: ReasonCode) {
        switch reason {
        case .shutdown, .idleTimeout: self = .leaves
        case .none, .other: self = .unsaid
        default:
            self = reason.subject == .credential || reason == .topicMismatch ? .credentialRefused : .other
        }
    }
}

/// Steps over the flat objects that APNs answers with. Strings with escapes are passed over, not decoded: no reason has
/// one.
private struct Scanner {
    let bytes: UnsafeRawBufferPointer
    var at = 0

    init(bytes: UnsafeRawBufferPointer) { self.bytes = bytes }

    var isAtEnd: Bool {
        mutating get {
            skipSpace()
            return at == bytes.count
        }
    }

    mutating func skipSpace() {
        while at < bytes.count, bytes[at] == 0x20 || (bytes[at] >= 0x09 && bytes[at] <= 0x0d) { at += 1 }
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        skipSpace()
        guard at < bytes.count, bytes[at] == UInt8(ascii: character) else { return false }
        at += 1
        return true
    }

    mutating func string() -> UnsafeRawBufferPointer? {
        guard take("\"") else { return nil }
        let start = at
        while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
            if bytes[at] == UInt8(ascii: "\\") { at += 1 }
            at += 1
        }
        guard at < bytes.count else { return nil }
        at += 1
        return UnsafeRawBufferPointer(rebasing: bytes[start..<(at - 1)])
    }

    /// A number's whole part; seconds and fractions have not been seen.
    mutating func number() -> Int64? {
        skipSpace()
        let start = at
        var value: Int64 = 0
        while at < bytes.count, bytes[at] >= UInt8(ascii: "0"), bytes[at] <= UInt8(ascii: "9") {
            guard at - start < 18 else { return nil }
            value = value * 10 + Int64(bytes[at] - UInt8(ascii: "0"))
            at += 1
        }
        return at > start ? value : nil
    }

    /// A string, a number or a word.
    mutating func skipScalar() -> Bool {
        skipSpace()
        if at < bytes.count, bytes[at] == UInt8(ascii: "\"") { return string() != nil }
        let start = at
        while at < bytes.count {
            switch bytes[at] {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"),
                UInt8(ascii: "+"), UInt8(ascii: "."), UInt8(ascii: "E"):
                at += 1
            default: return at > start
            }
        }
        return at > start
    }
}
