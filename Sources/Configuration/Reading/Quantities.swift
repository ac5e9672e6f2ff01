/// Durations and sizes in a configuration: a whole number and a unit.
enum Quantity {
    private static let times: [(unit: String, size: Int64)] = [
        ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1),
    ]
    private static let sizes: [(unit: String, size: Int64)] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]

    /// Parses a duration such as `30s`, `250ms`, `15m` or `2h`. `0` needs no unit.
    static func duration(_ text: some StringProtocol) -> Duration? {
        if text == "0" { return .zero }
        // The limit of a hundred years prevents an overflow when a duration is converted to nanoseconds.
        return number(text, times).flatMap { $0 <= 100 * 366 * 86_400_000 ? .milliseconds($0) : nil }
    }

    /// Parses a size such as `512KiB`, `16MiB` or `1GiB`, and returns it in bytes.
    static func size(_ text: some StringProtocol) -> Int? { number(text, sizes).map { Int($0) } }

    private static func number(_ text: some StringProtocol, _ units: [(unit: String, size: Int64)]) -> Int64? {
        let digits = text.prefix { $0.isASCII && $0.isNumber }
        guard let number = Int64(digits), let unit = units.first(where: { $0.unit == text[digits.endIndex...] }) else {
            return nil
        }
        let (product, overflow) = number.multipliedReportingOverflow(by: unit.size)
        return overflow ? nil : product
    }

    /// Formats a duration in the largest unit that needs no fraction, such as `15m`.
    static func text(_ duration: Duration) -> String {
        duration == .zero ? "0" : text(duration.milliseconds, times) ?? "\(duration)"
    }

    /// Formats a size in the largest unit that needs no fraction, such as `16MiB`.
    static func text(bytes: Int) -> String { text(Int64(bytes), sizes) ?? "\(bytes) bytes" }

    private static func text(_ number: Int64, _ units: [(unit: String, size: Int64)]) -> String? {
        units.first { number != 0 && number % $0.size == 0 }.map { "\(number / $0.size)\($0.unit)" }
    }
}

extension Duration {
    package var milliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }

    package var nanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
