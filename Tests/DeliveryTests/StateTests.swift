import Foundation
import Testing

@testable import Delivery

@Suite("States of a notification")
struct StateTests {
    /// State and followers, as the article's second table has them.
    private static func rows() throws -> [String: Set<String>] {
        let place = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appending(path: "../../Sources/Delivery/Delivery.docc/StatesOfANotification.md").standardizedFileURL
        let article = try String(contentsOf: place, encoding: .utf8)
        let table = article.components(separatedBy: "| from | to | when |\n")[1].components(separatedBy: "\n\n")[0]
        var rows: [String: Set<String>] = [:]
        for line in table.split(separator: "\n").dropFirst() {
            let cells = line.split(separator: "|").map { $0.components(separatedBy: "`") }
            // What stands between the first two backquotes, the next two, and so on.
            let names = cells.map { parts in parts.indices.filter { $0 % 2 == 1 }.map { parts[$0] } }
            rows[names[0][0]] = Set(names[1])
        }
        return rows
    }

    @Test("The article has every state, and what it leads to")
    func article() throws {
        let rows = try Self.rows()
        #expect(rows.count == Notification.State.allCases.count)
        for state in Notification.State.allCases {
            #expect(rows["\(state)"] == Set(state.followers.map { "\($0)" }), "\(state)")
        }
    }

    @Test("A notification that nobody decided is not current: an acknowledgement of it finds nobody")
    func admitted() {
        var store = NotificationStore.forTests()
        let slot = store.add("a")
        expect(store[slot].state, is: .admitted)
        expect(store.isCurrent(store.id(of: slot)), is: false)
        store.move(slot, to: .concluded)
        expect(store.isCurrent(store.id(of: slot)), is: true)
    }
}
