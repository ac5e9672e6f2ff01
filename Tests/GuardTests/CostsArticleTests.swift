import Foundation
import Testing

/// The table in "What it costs" shows the committed figures of the guard's parts.
@Suite struct CostsArticleTests {
    private static let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()

    /// The last cell of each row, by part.
    private static func rows() throws -> [String: String] {
        let place = here.appending(path: "../../Sources/Worker/Worker.docc/WhatItCosts.md").standardizedFileURL
        let article = try String(contentsOf: place, encoding: .utf8)
        let section = article.components(separatedBy: "\n## The guard\n")[1].components(separatedBy: "\n## ")[0]
        var rows: [String: String] = [:]
        for line in section.split(separator: "\n") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 3, cells[0].hasPrefix("`") else { continue }
            rows[cells[0].trimmingCharacters(in: ["`"])] = cells[2]
        }
        return rows
    }

    @Test func `The table shows the committed figures`() throws {
        let committed = try GuardFigures(Self.here.appending(path: "figures.json").path).parts
        let rows = try Self.rows()
        #expect(Set(rows.keys) == Set(committed.keys))
        for (part, figures) in committed {
            let count = Int((figures["instructions"] ?? 0).rounded())
            let text = count < 1_000 ? "\(count)" : "\(count / 1_000),\(String(1_000 + count % 1_000).dropFirst())"
            #expect(rows[part] == text, "\(part): write \(text)")
        }
    }
}

/// The file of committed figures.
struct GuardFigures: Codable {
    var takenWith: [String: String]
    var parts: [String: [String: Double]]

    private enum CodingKeys: String, CodingKey {
        case takenWith = "taken_with"
        case parts
    }

    init(_ path: String) throws {
        self = try JSONDecoder().decode(Self.self, from: Data(contentsOf: URL(fileURLWithPath: path)))
    }

    func write(to path: String) throws { try JSONEncoder().encode(self).write(to: URL(fileURLWithPath: path)) }
}
