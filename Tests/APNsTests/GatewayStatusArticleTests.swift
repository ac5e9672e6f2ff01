import Delivery
import Foundation
import PushRecords
import Testing

@testable import APNs

/// The table of a gateway's status codes in the article for users of node-apn.
struct GatewayStatusArticleTests {
    private struct Row: CustomTestStringConvertible {
        var status: UInt8
        var reason: String
        var outcome: String

        var testDescription: String { "\(status)" }
    }

    private static func rows() throws -> [Row] {
        let path = "../../Sources/Worker/Worker.docc/ComingFromNodeAPN.md"
        let place = URL(fileURLWithPath: #filePath).deletingLastPathComponent().appending(path: path)
            .standardizedFileURL
        let article = try String(contentsOf: place, encoding: .utf8)
        let table = article.components(separatedBy: "\n## Status codes\n")[1].components(separatedBy: "\n## ")[0]
        return table.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|", omittingEmptySubsequences: false)
                .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: " `")) }
            guard cells.count == 6, let status = UInt8(cells[2]) else { return nil }
            return Row(status: status, reason: cells[3], outcome: cells[4])
        }
    }

    @Test func `Each status is there`() throws {
        #expect(try Self.rows().map(\.status) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 128, 255])
    }

    @Test func `Reasons and verdicts are those of the code`() throws {
        for row in try Self.rows() {
            let answer = GatewayAnswer(status: row.status, identifier: 1)
            #expect(answer.isOfTheLastProcessed == row.outcome.hasPrefix("Nothing is wrong"), "\(row.status)")
            guard !answer.isOfTheLastProcessed else { continue }
            #expect(answer.resultStatus == UInt16(row.status))
            #expect((answer.text ?? answer.reason.text?.description) == row.reason, "\(row.status)")
            let found = VerdictTable().row(reason: answer.reason, text: answer.text, status: answer.resultStatus)
            let isLater = row.outcome.hasPrefix("sent again later") || row.outcome.hasPrefix("as 1")
            #expect(found.verdict == (isLater ? .retry : .reject), "\(row.status)")
            #expect(isLater || row.outcome.hasPrefix("rejected"), "\(row.status)")
        }
        let unknown = GatewayAnswer(status: 77, identifier: 1)
        #expect(unknown.resultStatus == 255)
        #expect(VerdictTable().row(reason: unknown.reason, text: unknown.text, status: 255).verdict == .retry)
    }
}
