import Foundation
import HTTPServer
import TestSupport
import Testing

@testable import APNsSimulator

@Suite(.timeLimit(.minutes(5)))
struct ControlPagesTests {
    private let simulator: Simulator

    init() throws { simulator = try Simulator() }

    private func get(_ page: String) -> String { LocalHTTP.request(simulator.control + page).body }
    private func post(_ page: String) -> String { LocalHTTP.request(simulator.control + page, method: "POST").body }

    @Test func `The totals are returned as JSON and can be reset`() throws {
        let provider = try simulator.provider()
        try provider.push(1, token: token("fa174101"))
        #expect(provider.run { provider.responses.count == 2 })
        func totals(_ text: String) throws -> NSDictionary {
            try #require(JSONSerialization.jsonObject(with: Data(text.utf8)) as? NSDictionary)
        }
        let before = try totals(get("/totals"))
        #expect(before["requests"] as? Int == 2 && before["accepted"] as? Int == 1 && before["refused"] as? Int == 1)
        #expect(before["reasons"] as? NSDictionary == ["Unregistered": 1])
        #expect(before["open_connections"] as? Int == 1)
        let after = try totals(post("/reset"))
        #expect(after["requests"] as? Int == 0 && after["open_connections"] as? Int == 1)
        #expect(get("/received") == "")
    }

    @Test func `Faults can be set, listed and removed`() {
        func described(_ latency: String, _ rest: String) -> String {
            "{\"latency\":\"\(latency)\",\"streams\":1000,\"faults\":\(rest)}\n"
        }
        let rules = "[\"goaway@10000\",\"no-answer@5s\"]"
        #expect(get("/faults") == described("0", "[]"))
        #expect(
            post("/faults?latency=20ms..80ms&fault=goaway@10000&fault=no-answer@5s") == described("20ms..80ms", rules))
        #expect(post("/faults?latency=0") == described("0", rules))
        #expect(
            post("/faults?fault=&gateway=slow=100&gateway=close@9")
                == described("0", "[],\"gateway\":[\"slow=100\",\"close@9\"]"))
        #expect(post("/faults?gateway=") == described("0", "[]"))
    }

    @Test(arguments: [
        ("/faults?latency=soon", "latency 'soon'"), ("/faults?fault=goaway", "fault 'goaway'"),
        ("/faults?gateway=close", "gateway fault 'close'"),
        ("/faults?fault=x@1", "no fault 'x'"), ("/faults?streams=few", "streams 'few'"),
        ("/faults?falt=goaway@1", "no parameter 'falt'"),
        ("/now", "give fault=NAME"), ("/now?fault=x", "give fault=NAME"),
        ("/now?fault=no-answer", "is a fault of a request"),
        ("/feedback", "give a token"), ("/feedback?token=0a", "give a token"),
        ("/feedback?token=0a&seconds=x", "give a token"), ("/feedback?token=0&seconds=1", "'0' is not a device token"),
        ("/feedback?token=0g&seconds=1", "'0g' is not a device token"),
    ])
    func `The error of an invalid parameter names it`(page: String, words: String) {
        let answer = LocalHTTP.request(simulator.control + page, method: "POST")
        #expect(answer.status == 400 && answer.body.contains(words))
        #expect(get("/feedback") == "")
    }

    @Test func `Feedback tokens can be added and listed`() {
        #expect(post("/feedback?token=0A0b&seconds=17") == "0a0b 17\n")
        #expect(get("/feedback") == "0a0b 17\n")
    }

    @Test func `The help names every page`() {
        let help = get("/")
        for route in ControlPages(books: simulator.books, switches: simulator.switches).routes where route.path != "/" {
            #expect(help.contains((route.method == .get ? "GET  " : "POST ") + route.path))
        }
    }
}
