package import Observability

/// `log`.
package struct LogSettings: Hashable, Sendable {
    package var level = Level.info
    package var parts: [Part: Level] = [:]
    package var format = LineFormat.text

    package init() {}

    package var levels: LevelTable { LevelTable(level, parts: parts) }
}

extension LogSettings {
    mutating func read(_ section: inout Section) {
        section.read("level", into: &level) { $0.choice() }
        section.read("format", into: &format) { $0.choice() }
        section.section("parts") { section in
            for part in Part.allCases {
                section.read(part.rawValue, into: &parts[part]) { $0.choice(Level.self) }
            }
        }
    }
}
