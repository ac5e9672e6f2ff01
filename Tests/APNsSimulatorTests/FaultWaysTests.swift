import EventLoop
import Foundation
import Glibc
import HTTP2
import Network
import PushRecords
import Testing

@testable import APNsSimulator

/// Every fault that has a name, in each of the ways it can be asked for, and what a client over a real connection sees.
///
/// The table is the product's own: whoever adds a fault gives it a name and a device token, and says here what is seen.
@Suite(.timeLimit(.minutes(5)))
struct FaultWaysTests {
    enum Way: CaseIterable, Sendable {
        /// The device token's first digits.
        case token
        /// `--fault NAME@COUNT`.
        case commandLine
        /// `POST /faults`, while it runs and the connection is open.
        case control
    }

    static let names =
        NamedFault.all.map(\.name) + ReasonCode.allCases.compactMap { $0.text?.description }
        + FaultFamily.all.flatMap(\.examples)

    @Test(arguments: names, Way.allCases)
    func `Every fault in each way`(name: String, way: Way) throws {
        let fault = try #require(Fault(name: name))
        #expect(fault.name == name)
        let code = try #require(TokenTable.code(of: fault), "no device token asks for it")

        var options = SimulatorOptions()
        // The request that opens all streams, two that come before, the one.
        if way == .commandLine { options.faults = [try FaultRule(text: "\(name)@4")] }
        let simulator = try Simulator(options)
        let provider = try simulator.provider()
        // The simulator's end waits for a client to close, at most a second.
        defer { provider.close() }
        if way == .control {
            let answer = try simulator.post("/faults", ["fault": "\(name)@3"])
            #expect(answer.contains("\"faults\":[\"\(name)@3\"]"))
        }
        for user in [0, 1] as [UInt32] { try provider.push(user) }
        #expect(provider.run { provider.responses[0]?.status == 200 && provider.responses[1]?.status == 200 })

        let asking = token(way == .token ? "fa17\(code)0" : "00", 2)
        try provider.push(2, token: asking)
        // Those that follow come with the same bytes, but where they would undo it.
        if fault != .oneStream { for user in [3, 4] as [UInt32] { try provider.push(user) } }
        try See(provider: provider).the(fault)
        #expect(simulator.books.counts(ofToken: asking) == (1, fault.isProcessed ? 1 : 0))
        let totals = simulator.books.totals
        #expect(totals.unanswered == (fault.leavesUnanswered ? 1 : 0))
        #expect((totals.notProcessed > 0) == fault.isUnprocessed)
        if case .cut = fault { #expect(totals.cuts == 1) }
        if case .goAway = fault { #expect(totals.goAways == 1) }
    }

    @Test(arguments: names)
    func `What is of a connection can befall all of them at once`(name: String) throws {
        let fault = try #require(Fault(name: name))
        let (simulator, provider) = try Simulator.connected()
        let answer = try simulator.post("/now", ["fault": name])
        #expect(answer.contains(fault.isOfConnection ? "{\"connections\":1}" : "befalls a request"), "\(answer)")
        provider.close()
    }

    /// What the client sees: requests 0 and 1 were answered, 2 met the fault, 3 and 4 came right behind it.
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
            case .oneStream:
                #expect(provider.run { provider.session.allowedStreams == 1 })
                #expect(provider.responses[2]?.status == 200)
                try provider.push(3)
                #expect(provider.run { provider.session.allowedStreams == 1000 })
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

        /// The connection goes on: 3 and 4 are answered, and a PING that was sent after them.
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
            if case .fixed = latency { #expect(provider.order.last == 2) }
        }

        private func theConnectionLeaves(_ kind: GoAway) {
            #expect(provider.run { provider.end != nil })
            #expect(provider.end == .closedByPeer)
            let (data, last): ([String], Int32?) =
                switch kind {
                case .graceful, .immediate: ([""], nil)
                case .reason(let reason), .immediateReason(let reason): (["{\"reason\":\"\(reason.text!)\"}"], nil)
                case .text: ([GoAway.plainText], nil)
                case .twice: (["", ""], nil)
                case .below: ([""], provider.sent[1])
                case .badEnvironment: ([#"{"reason":"BadCertificateEnvironment"}"#], 0)
                }
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
            #expect(provider.end == (kind == .after ? .closedByPeer : .lost))
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
            let payload = "{\"a\":\"" + String(repeating: "x", count: 4000) + "\"}"
            for user in 10..<50 as Range<UInt32> { try provider.push(user, payload: payload) }
            try othersAreAnswered { this(.accepted) }
            #expect(!provider.run(forMs: 60) { provider.waiting.isEmpty })
            #expect(provider.waiting.count > 10)
        }
    }
}

extension Fault {
    /// Whether a request that meets it is neither answered nor known to be unprocessed.
    fileprivate var leavesUnanswered: Bool {
        if case .answer = self { false } else { !isProcessed && !isUnprocessed }
    }
}

extension Simulator {
    /// Asks the control endpoint, and returns the whole answer; plain HTTP/1.1, as anyone would.
    func post(_ path: String, _ parameters: [String: String]) throws -> String {
        let query = parameters.map { name, value in
            "\(name)=\(value.addingPercentEncoding(withAllowedCharacters: .alphanumerics)!)"
        }.joined(separator: "&")
        let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { Glibc.close(socket) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = controlPort!.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let connected = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(socket, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        guard connected == 0 else { throw SimulatorError("no connection to the control endpoint") }
        let request =
            "POST \(path)?\(query) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        guard request.withCString({ send(socket, $0, strlen($0), 0) }) == request.utf8.count else {
            throw SimulatorError("the control endpoint takes nothing")
        }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while case let count = recv(socket, &buffer, buffer.count, 0), count > 0 { answer += buffer[..<count] }
        return String(decoding: answer, as: UTF8.self)
    }
}
