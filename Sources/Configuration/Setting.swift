internal import PushRecords

/// The value of a setting as text, to compare configurations and to show them.
package struct Setting: Hashable, Sendable {
    /// The value in one spelling, such as `12s` for a duration and the bytes of a size, or `(set)` for a secret.
    package var text: String
    /// The hash of a secret, which is seeded per process, or 0 for other settings.
    private var hash = 0

    package init(text: String) { self.text = text }

    /// - Parameter text: The text to show in place of the secret.
    init(secret: String, shownAs text: String = "(set)") {
        self.text = text
        hash = secret.hashValue
    }

    /// Returns `nil` for an absent or empty value, and for a section, whose keys are the settings. The types of secrets
    /// have descriptions without the secret.
    init?(of value: Any) {
        switch value {
        case let value as Duration: text = Quantity.text(value)
        case let value as PushEnvironment: text = "\(value.text)"
        case let value as any RawRepresentable: text = "\(value.rawValue)"
        case let value as [Reason: DeliverySettings.Verdict]:
            text = value.map { "\($0.rawValue): \($1.rawValue)" }.sorted().joined(separator: ", ")
        case let value as [Any]:
            text = value.compactMap { element in
                // Without the quotes, one text with a comma would equal two.
                Self(of: element).map { element is String && $0.text.contains(",") ? "\"\($0.text)\"" : $0.text }
            }.joined(separator: ", ")
        case is UserProperty: return nil
        case let value as any CustomStringConvertible: text = value.description
        default: return nil
        }
        if text.isEmpty { return nil }
    }

    /// Returns whether the worker reads the setting with this path only at its start.
    package static func needsRestart(_ path: String) -> Bool {
        !["apps", "log.level", "log.parts."].contains(where: path.hasPrefix)
    }
}

extension [String: Setting] {
    /// Returns the sorted paths of the settings that differ. An app that is added or removed has one path, such as
    /// `apps[shop]`. The path `apps` stands for another order of the same apps.
    package func changes(to new: Self) -> [String] {
        let paths = Set(keys).union(new.keys).filter { self[$0] != new[$0] }
        var changes = Set(
            paths.map { path in
                guard path.hasPrefix("apps["), let end = path.firstIndex(of: "]") else { return path }
                let app = String(path[...end])
                return paths.contains("\(app).name") ? app : path
            })
        if changes.contains(where: { $0.hasSuffix("]") }) { changes.remove("apps") }
        return changes.sorted()
    }
}
