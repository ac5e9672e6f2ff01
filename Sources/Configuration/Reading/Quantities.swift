/// Durations and sizes as a configuration writes them: a whole number and a unit.
enum Quantity {
    /// `30s`, `250ms`, `15m`, `2h`; `0` needs no unit.
    static func duration(_ text: some StringProtocol) -> Duration? {
        if text == "0" { return .zero }
        guard let (number, unit) = split(text) else { return nil }
        let milliseconds: Int64
        switch unit {
        case "ms": milliseconds = 1
        case "s": milliseconds = 1_000
        case "m": milliseconds = 60_000
        case "h": milliseconds = 3_600_000
        default: return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: milliseconds)
        // A hundred years: nothing a worker waits for, and far from overflowing nanoseconds.
        guard !overflow, product <= 100 * 366 * 86_400_000 else { return nil }
        return .milliseconds(product)
    }

    /// Bytes: `512KiB`, `16MiB`, `1GiB`.
    static func size(_ text: some StringProtocol) -> Int? {
        guard let (number, unit) = split(text) else { return nil }
        let bytes: Int64
        switch unit {
        case "KiB": bytes = 1 << 10
        case "MiB": bytes = 1 << 20
        case "GiB": bytes = 1 << 30
        default: return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: bytes)
        return overflow ? nil : Int(product)
    }

    private static func split(_ text: some StringProtocol) -> (Int64, String)? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits) else { return nil }
        return (number, String(text[digits.endIndex...]))
    }

    /// In the largest unit that needs no fraction.
    static func text(_ duration: Duration) -> String {
        let milliseconds = duration.milliseconds
        for (unit, size) in [("h", 3_600_000), ("m", 60_000), ("s", 1_000)] as [(String, Int64)]
        where milliseconds != 0 && milliseconds % size == 0 {
            return "\(milliseconds / size)\(unit)"
        }
        return milliseconds == 0 ? "0" : "\(milliseconds)ms"
    }

    /// In the largest unit that needs no fraction.
    static func text(bytes: Int) -> String {
        for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] where bytes != 0 && bytes % (1 << shift) == 0 {
            return "\(bytes >> shift)\(unit)"
        }
        return "\(bytes) bytes"
    }
}

extension Duration {
    /// Whole milliseconds, rounded towards zero.
    package var milliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }

    /// Whole nanoseconds, rounded towards zero.
    package var nanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
