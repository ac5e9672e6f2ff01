package import Observability

/// `--log-level` and `--log-part`: what is in force in place of the file's `log.level` and `log.parts`, also after a
/// reload.
package struct LogFlags: Hashable, Sendable {
    package private(set) var level: Level?
    package private(set) var parts: [Part: Level] = [:]

    package init() {}

    package static let options: [OptionTable<Self>.Option] = [
        .init(
            "log-level", value: "LEVEL",
            "The lowest level that is logged, in place of log.level: \(words(Level.self))."
        ) { flags, text throws(UsageError) in flags.level = try word(text, "level") },
        .init(
            "log-part", value: "PART=LEVEL",
            "The same for one part, in place of its level in log.parts: \(words(Part.self)); may be given more than once."
        ) { flags, text throws(UsageError) in
            guard let sign = text.firstIndex(of: "=") else {
                throw UsageError("expected PART=LEVEL, such as apns=debug, found \(quoted(text))")
            }
            let part: Part = try word(String(text[..<sign]), "part")
            flags.parts[part] = try word(String(text[text.index(after: sign)...]), "level") as Level
        },
    ]

    /// The settings, with what the flags say in place of theirs.
    package func applied(to settings: LogSettings) -> LogSettings {
        var settings = settings
        settings.level = level ?? settings.level
        settings.parts.merge(parts) { $1 }
        return settings
    }

    /// The same of a configuration that was read.
    package func applied(to loaded: LoadedConfiguration) -> LoadedConfiguration {
        var loaded = loaded
        loaded.configuration.log = applied(to: loaded.configuration.log)
        return loaded
    }

    private static func words<T: RawRepresentable & CaseIterable>(_: T.Type) -> String where T.RawValue == String {
        T.allCases.map(\.rawValue).joined(separator: ", ")
    }

    private static func word<T: RawRepresentable & CaseIterable>(
        _ text: String, _ kind: String
    ) throws(UsageError) -> T where T.RawValue == String {
        if let value = T(rawValue: text) { return value }
        let known = T.allCases.map(\.rawValue)
        // `warn` is `warning` elsewhere.
        let longer = text.isEmpty ? [] : known.filter { $0.hasPrefix(text.lowercased()) }
        let advice =
            (longer.count == 1 ? longer[0] : nearest(to: text, among: known)).map { "did you mean \($0)?" }
            ?? "expected one of \(words(T.self))"
        throw UsageError("there is no \(kind) \(quoted(text)); \(advice)")
    }
}
