import Glibc
import Testing

@testable import Delivery

@Suite("States of a notification")
struct StateTests {
    /// State and followers, as the article's second table has them.
    private static func rows() throws -> [String: Set<String>] {
        let here = try #require(#filePath.ranges(of: "Tests/DeliveryTests/").last)
        let root = String(#filePath[..<here.lowerBound])
        let article = try text(of: root + "Sources/Delivery/Delivery.docc/StatesOfANotification.md")
        let table = try #require(article.split(separator: "| from | to | when |\n").last).split(separator: "\n\n")[0]
        var rows: [String: Set<String>] = [:]
        for line in table.split(separator: "\n").dropFirst() {
            let cells = line.split(separator: "|")
            let names = cells.map { cell in
                cell.split(separator: ",").map { String($0.filter { $0 != " " && $0 != "`" }) }
            }
            rows[names[0][0]] = Set(names[1])
        }
        return rows
    }

    private static func text(of path: String) throws -> String {
        let file = try #require(fopen(path, "r"))
        defer { fclose(file) }
        var bytes = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&bytes, 1, bytes.count, file)
        return String(decoding: bytes[..<count], as: UTF8.self)
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

    @Test("A notification takes less than three cache lines: there are tens of thousands")
    func size() { expect(MemoryLayout<Notification>.stride, is: 152) }
}
