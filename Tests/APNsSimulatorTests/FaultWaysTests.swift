import Foundation
import HTTP2
import Network
import PushRecords
import TestSupport
import Testing

@testable import APNsSimulator

/// The effect of every kind of fault on a client, requested with a device token and with the control endpoint.
@Suite(.timeLimit(.minutes(5)))
struct FaultWaysTests {
    /// The names of faults, and the digits of the device tokens that request the same fault.
    static let faults: [(name: String, code: String?)] =
        Fault.named.map { ($0.name, $0.code.description) } + [
            ("TooManyRequests", "4291"), ("Unregistered", "4101"), ("late-150ms", "d015"), ("late-0", "d000"),
            ("late-~50ms", nil), ("status-418", "e418"), ("empty-503", "b503"), ("streams-0", "1000"),
            ("streams-7", "1007"), ("goaway:IdleTimeout", nil), ("goaway-now:TooManyProviderTokenUpdates", nil),
        ]

    @Test(arguments: faults.indices, [true, false])
    func `A fault has its effect, whether requested by token or by control endpoint`(index: Int, byToken: Bool) throws {
        let (name, code) = Self.faults[index]
        let fault = try #require(Fault(name: name))
        #expect(fault.name == name)
        guard code != nil || !byToken else { return }
        let simulator = try Simulator()
        let provider = try simulator.provider()
        // Without this abort, the simulator would wait up to a second for the client to close the connection.
        defer { provider.abort() }
        if !byToken {
            let answer = simulator.post("/faults", fault: "\(name)@3")
            #expect(answer.contains("\"faults\":[\"\(name)@3\"]"))
        }
        for user in [0, 1] as [UInt32] { try provider.push(user) }
        #expect(provider.run { provider.responses[0]?.status == 200 && provider.responses[1]?.status == 200 })

        let asking = token(byToken ? "fa17\(code ?? "")0" : "00", 2)
        try provider.push(2, token: asking)
        // The next requests arrive together with this one.
        for user in [3, 4] as [UInt32] { try provider.push(user) }
        try See(provider: provider).the(fault)
        #expect(simulator.books.counts(ofToken: asking) == (1, fault.outcome == .accepted ? 1 : 0))
        let totals = simulator.books.totals
        #expect(totals.unanswered == (fault.outcome == .unanswered ? 1 : 0))
        #expect((totals.notProcessed > 0) == (fault.outcome == .notProcessed))
        if case .cut = fault { #expect(totals.cuts == 1) }
        if case .goAway = fault { #expect(totals.goAways == 1) }
    }

    @Test(arguments: faults.map(\.name))
    func `Only a connection fault can be injected into all open connections`(name: String) throws {
        let fault = try #require(Fault(name: name))
        let (simulator, provider) = try Simulator.connected()
        let answer = simulator.post("/now", fault: name)
        #expect(answer.contains(fault.isOfConnection ? "{\"connections\":1}" : "is a fault of a request"), "\(answer)")
        provider.abort()
    }

    /// Checks the effect on the client. Requests 0 and 1 were answered, request 2 triggered the fault, and requests 3
    /// and 4 were sent right after it.
    private struct See {
        let provider: Provider

        func the(_ fault: Fault) throws {
            switch fault {
            case .answer(let answer): try othersAreAnswered { this(answer) }
            case .late(let latency): try othersAreAnswered { late(latency) }
            case .noAnswer: try othersAreAnswered { #expect(provider.responses[2] == nil && provider.ended.isEmpty) }
            case .resetStream: try othersAreAnswered { #expect(provider.ended == [2: .internalError]) }
            case .refuseStream: try othersAreAnswered { #expect(provider.ended == [2: .refusedStream]) }
            case .goAway(let kind): theConnectionLeaves(kind)
            case .cut(let kind): theConnectionIsCut(kind)
            case .blackhole: try nothingMoreIsHeard()
            case .stall: try bodiesHalt()
            case .streams(let count):
                #expect(provider.run { provider.session.allowedStreams == Int(count) })
                #expect(provider.responses[2]?.status == 200 && provider.end == nil)
            case .garbage: #expect(provider.run { provider.session.isFinished || provider.brokenBy != nil })
            case .splitFrames: try othersAreAnswered { this(.accepted) }
            case .slowFrames:
                try othersAreAnswered { this(.accepted) }
                #expect(provider.receipts > 3)
            case .outOfOrder:
                #expect(provider.run { provider.responses[2] != nil })
                #expect(provider.order.suffix(3) == [4, 3, 2])
            }
        }

        /// Expects that the connection stays open and that requests 3 and 4 and a later PING are answered.
        private func othersAreAnswered(_ see: () -> Void) throws {
            try provider.ping()
            let others: [UInt32] = [3, 4]
            #expect(provider.run { provider.pongs == 1 && others.allSatisfy { provider.responses[$0] != nil } })
            #expect(others.allSatisfy { provider.responses[$0]?.status == 200 })
            see()
            #expect(provider.end == nil && provider.goAways.isEmpty)
        }

        private func this(_ answer: Answer) {
            let response = provider.responses[2]
            #expect(response?.status == Int(answer.status))
            let reason = answer.body == .reason ? answer.reason.text?.description ?? "" : "ReasonOfTomorrow"
            let body = answer.status == 200 || answer.body == .missing ? "" : "{\"reason\":\"\(reason)\""
            #expect(response?.body.hasPrefix(body) == true && (body.isEmpty ? response?.body.isEmpty == true : true))
        }

        private func late(_ latency: Latency) {
            #expect(provider.run { provider.responses[2] != nil })
            #expect(provider.responses[2]?.status == 200)
            if case .fixed(1...) = latency { #expect(provider.order.last == 2) }
        }

        private func theConnectionLeaves(_ kind: GoAway) {
            #expect(provider.run { provider.end != nil })
            #expect(provider.end == .closedByPeer)
            let last: Int32? = kind == .below ? provider.sent[1] : kind == .badEnvironment ? 0 : nil
            let data = kind == .twice ? ["", ""] : [kind.debugData]
            #expect(provider.goAways.map(\.data) == data)
            if kind == .twice { #expect(provider.goAways.first?.last == .max) }
            guard let told = provider.goAways.last?.last else { return }
            if let last { #expect(told == last) } else { #expect(told >= provider.sent[2]!) }
            for user in [2, 3, 4] as [UInt32] {
                let isAbove = provider.sent[user]! > told
                #expect((provider.ended[user] == .refusedStream) == isAbove)
                #expect((provider.responses[user]?.status == 200) == (kind.isAnswered && !isAbove))
            }
        }

        private func theConnectionIsCut(_ kind: Cut) {
            #expect(provider.run { provider.end != nil })
            #expect(provider.end == (kind == .after ? .closedByPeer : .failed))
            #expect((provider.responses[2]?.status == 200) == (kind == .after))
            #expect(provider.endText.contains("reset") == (kind == .reset), "\(provider.endText)")
            #expect(provider.goAways.isEmpty)
        }

        private func nothingMoreIsHeard() throws {
            try provider.ping()
            let seen = provider.responses.count
            #expect(
                !provider.run(forMs: 60) {
                    provider.pongs > 0 || provider.responses.count > seen || provider.end != nil
                })
            #expect(provider.responses[2] == nil)
        }

        private func bodiesHalt() throws {
            for user in 10..<50 as Range<UInt32> { try provider.push(user, payload: payload(4008)) }
            try othersAreAnswered { this(.accepted) }
            #expect(!provider.run(forMs: 60) { provider.waiting.isEmpty })
            #expect(provider.waiting.count > 10)
        }
    }
}

extension Simulator {
    /// The URL of the control endpoint, without a path.
    var control: String { "http://127.0.0.1:\(controlPort!)" }

    /// Sends a request to the control endpoint.
    func post(_ path: String, fault: String) -> String {
        let value = fault.addingPercentEncoding(withAllowedCharacters: .alphanumerics)!
        return LocalHTTP.request("\(control)\(path)?fault=\(value)", method: "POST").body
    }
}
