import Network
import Testing

@testable import APNsSimulator

@Suite(.timeLimit(.minutes(5)))
struct FeedbackTests {
    static func item(_ seconds: Int, _ token: [UInt8]) -> [UInt8] { Wire.number(seconds, 4) + Wire.sized(token) }

    @Test func `The feedback service sends each token once`() throws {
        let simulator = try Simulator.withGateway {
            $0.feedback = [try .init(token: token("01").uppercased(), seconds: 1_700_000_000)]
        }
        simulator.feedback.add(try .init(token: "0a0b", seconds: .max))
        let client = try simulator.feedbackClient()
        #expect(
            client.receivedAtEnd() == Self.item(1_700_000_000, tokenBytes("01")) + Self.item(0xFFFF_FFFF, [10, 11]))
        #expect(client.end == .closedByPeer)
        let again = try simulator.feedbackClient()
        #expect(again.receivedAtEnd() == [] && again.isOpen)
        simulator.feedback.add(try .init(token: "0c", seconds: 1))
        #expect(try simulator.feedbackClient().receivedAtEnd() == Self.item(1, [12]))
    }

    /// The list of 8 MB does not fit into the kernel's buffers, so the first client ends before all of it is sent.
    @Test func `Feedback tokens stay in the list if the connection ends before they are sent`() throws {
        let simulator = try Simulator.withGateway()
        var whole: [UInt8] = []
        for number in 0..<200_000 {
            whole += Self.item(number, tokenBytes("01", number))
            simulator.feedback.add(try .init(token: token("01", number), seconds: UInt32(number)))
        }
        let first = try simulator.feedbackClient()
        #expect(first.run { !first.received.isEmpty })
        first.isReading = false
        first.run(forMs: 200)
        first.abort()
        #expect(first.run { first.end != nil })
        #expect(first.received.count < whole.count)
        let second = try simulator.feedbackClient()
        #expect(second.receivedAtEnd() == whole)
        #expect(second.run { simulator.feedback.text.isEmpty })
    }

    @Test func `Items that two connections sent are removed without removing newer ones`() throws {
        let list = FeedbackList()
        list.add(try .init(token: "01", seconds: 1))
        let one = list.items
        let two = list.items
        list.add(try .init(token: "02", seconds: 2))
        list.sent(upTo: one.mark)
        list.sent(upTo: two.mark)
        #expect(list.items.bytes == Self.item(2, [2]))
        #expect(list.text == "02 2\n")
    }
}
