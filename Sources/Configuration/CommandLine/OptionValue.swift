/// Readers of options' values; what they throw names what would be right.
package enum OptionValue {
    package static func integer(_ text: String, _ range: ClosedRange<Int>) throws(UsageError) -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw UsageError(
                "expected a whole number from \(range.lowerBound) to \(range.upperBound), found \(quoted(text))")
        }
        return number
    }

    package static func duration(_ text: String) throws(UsageError) -> Duration {
        guard let duration = Quantity.duration(text) else {
            throw UsageError("expected a duration such as 250ms, 30s, 15m or 2h, found \(quoted(text))")
        }
        return duration
    }

    package static func topicName(_ text: String) throws(UsageError) -> String {
        guard isTopicName(text), !text.isEmpty else {
            throw UsageError(
                "expected a topic's name: 1 to 249 letters, digits, dots, hyphens or underscores, found \(quoted(text))"
            )
        }
        return text
    }

    /// `100/s`.
    package static func rate(_ text: String) throws(UsageError) -> Int {
        guard text.hasSuffix("/s"), let number = Int(text.dropLast(2)), (1...1_000_000).contains(number) else {
            throw UsageError("expected so many a second, from 1/s to 1000000/s, found \(quoted(text))")
        }
        return number
    }

    package static func moment(_ text: String) throws(UsageError) -> Moment {
        guard let moment = Moment(text) else {
            throw UsageError(
                "expected a time such as 2026-01-31T12:00:00Z, or how long ago, such as 15m or 48h, found \(quoted(text))"
            )
        }
        return moment
    }

    package static func text(_ text: String) throws(UsageError) -> String {
        guard !text.isEmpty else { throw UsageError("must not be empty") }
        return text
    }

    package static func choice<T: RawRepresentable & CaseIterable>(
        _ text: String, _: T.Type = T.self
    ) throws(UsageError) -> T where T.RawValue == String {
        guard let value = T(rawValue: text) else {
            let words = T.allCases.map(\.rawValue).joined(separator: ", ")
            throw UsageError("expected one of \(words), found \(quoted(text))")
        }
        return value
    }
}
