package import Observability

/// The options `--log-level` and `--log-part`, which override the file's `log.level` and `log.parts`, even after a
/// reload.
package struct LogFlags: Hashable, Sendable {
    package private(set) var level: Level?
    package private(set) var parts: [Part: Level] = [:]

    package init() {}

    package static let options: [OptionTable<Self>.Option] = [
        .init(
            "log-level", value: "LEVEL",
            "Override log.level, and write lines of this level and above (\(words(Level.self)))."
        ) { flags, text in flags.level = try OptionValue.choice(text) },
        .init(
            "log-part", value: "PART=LEVEL",
            "Override log.parts for one part (\(words(Part.self))). Repeat the option for more parts."
        ) { flags, text in
            guard let sign = text.firstIndex(of: "=") else {
                throw UsageError("expected PART=LEVEL, such as apns=debug, found \(quoted(text))")
            }
            let part: Part = try OptionValue.choice(String(text[..<sign]))
            let level: Level = try OptionValue.choice(String(text[text.index(after: sign)...]))
            flags.parts[part] = level
        },
    ]

    package func applied(to settings: LogSettings) -> LogSettings {
        var settings = settings
        settings.level = level ?? settings.level
        settings.parts.merge(parts) { $1 }
        return settings
    }

    private static func words<T: RawRepresentable & CaseIterable>(_: T.Type) -> String where T.RawValue == String {
        T.allCases.map(\.rawValue).joined(separator: ", ")
    }
}
