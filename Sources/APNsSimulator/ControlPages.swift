import EventLoop
import HTTPServer

/// The control endpoint: the books to read, the faults to switch. Handlers run on the page server's thread.
struct ControlPages: Sendable {
    let books: Books
    let switches: FaultSwitches
    var channels = ChannelBook()
    var feedback = FeedbackList()

    var routes: [Route] {
        [
            Route(.get, "/") { _ in .text(Self.help) },
            Route(.get, "/totals") { [books] _ in .json(books.totals.json) },
            Route(.get, "/accepted") { [books] in Self.dump(books, .accepted, $0) },
            Route(.get, "/received") { [books] in Self.dump(books, .received, $0) },
            Route(.get, "/tokens") { [books] in Self.dump(books, .tokens, $0) },
            Route(.get, "/token") { [books] in Self.token(books, $0) },
            Route(.get, "/channels") { [books, channels] _ in .text(Self.list(channels, books)) },
            Route(.get, "/feedback") { [feedback] _ in .text(feedback.text) },
            Route(.post, "/feedback") { [feedback] in Self.add(to: feedback, $0) },
            Route(.post, "/reset") { [books] _ in
                books.reset()
                return .json(books.totals.json)
            },
            Route(.get, "/faults") { [switches] _ in .json(Self.describe(switches)) },
            Route(.post, "/faults") { [switches] in Self.change(switches, $0) },
            Route(.post, "/now") { [switches] in Self.inject(switches, $0) },
        ]
    }

    static let help = """
        GET  /totals     counts since the start or the last reset, as JSON
        GET  /accepted   lines "apns-id token count" of all that was accepted, in the order of first arrival
        GET  /received   the same of all that was, or may have been, processed
        GET  /tokens     lines "token arrived accepted"
                         ?from=N leaves out the N notifications (or tokens) that came first
        GET  /token?token=HEX           the same for one token, as JSON
        GET  /channels   lines "bundle-id channel-id policy arrived accepted" of all broadcast channels;
                         policy: 0 stores nothing, 1 the most recent message
        GET  /feedback   lines "token seconds" of what the feedback service has to tell
        POST /feedback?token=HEX&seconds=N     adds a token, gone since N seconds after the epoch
                         notifications of the binary gateway stand in the books with an apns-id of
                         zeros: one whose count in /accepted is above 1 was accepted twice
        POST /reset      forgets books and counts; channels and feedback stay
        GET  /faults     latency, streams and faults as they are set
        POST /faults?latency=50ms&streams=100&fault=goaway@10000&fault=cut-after@5s
                         sets those that are named; an empty fault= takes all away
                         fault=blackhole@1, say, silences every connection, new ones too
        POST /faults?gateway=close@1000&gateway=split
                         the same of the binary gateway, from the next connection on
        POST /now?fault=goaway          does that to every connection at once; tcp-reset and
                         cut-before end those that a fault had silenced too

        """

    private static func list(_ channels: ChannelBook, _ books: Books) -> String {
        channels.all.map { channel in
            let counts = books.counts(ofChannel: channel.id)
            return "\(channel.bundleID) \(channel.id) \(channel.policy.rawValue) \(counts.arrived) \(counts.accepted)\n"
        }.joined()
    }

    private static func dump(_ books: Books, _ listing: Books.Listing, _ request: HTTPRequest) -> HTTPResponse {
        var first = 0
        if let text = request.parameter("from") {
            guard let number = Int(text), number >= 0 else {
                return .text("from '\(text)' is no number\n", status: 400)
            }
            first = number
        }
        let cursor = Guarded(Books.Cursor(listing, from: first))
        return HTTPResponse(
            contentType: "text/plain",
            body: .stream { room in
                nonisolated(unsafe) let room = room
                return cursor.withLock { cursor in
                    switch books.dump(&cursor, into: room) {
                    case .wrote(let count): .wrote(count)
                    case .end: .end
                    case .reset: .failed
                    }
                }
            })
    }

    private static func token(_ books: Books, _ request: HTTPRequest) -> HTTPResponse {
        guard let token = request.parameter("token")?.lowercased() else {
            return .text("which token? /token?token=HEX\n", status: 400)
        }
        let counts = books.counts(ofToken: token)
        return .json("{\"arrived\":\(counts.arrived),\"accepted\":\(counts.accepted)}\n")
    }

    private static func add(to list: FeedbackList, _ request: HTTPRequest) -> HTTPResponse {
        guard let token = request.parameter("token"), let seconds = request.parameter("seconds").flatMap(UInt32.init)
        else { return .text("which token, and since when? /feedback?token=HEX&seconds=N\n", status: 400) }
        do throws(SimulatorError) {
            try list.add(SimulatorOptions.FeedbackItem(token: token, seconds: seconds))
        } catch {
            return .text("\(error)\n", status: 400)
        }
        return .text(list.text)
    }

    private static func describe(_ switches: FaultSwitches) -> String {
        let rules = switches.rules.map { "\"\($0.text)\"" }.joined(separator: ",")
        let names = switches.gateway.map { "\"\($0.text)\"" }.joined(separator: ",")
        let gateway = names.isEmpty ? "" : ",\"gateway\":[\(names)]"
        return
            "{\"latency\":\"\(switches.latency.text)\",\"streams\":\(switches.streams),\"faults\":[\(rules)]\(gateway)}\n"
    }

    private static func change(_ switches: FaultSwitches, _ request: HTTPRequest) -> HTTPResponse {
        if let unknown = request.unknownParameter(besides: ["latency", "streams", "fault", "gateway"]) {
            return .text("there is no parameter '\(unknown)': latency, streams, fault, gateway\n", status: 400)
        }
        var latency: Latency?
        if let text = request.parameter("latency") {
            latency = Latency(text: text)
            guard latency != nil else {
                return .text("latency '\(text)': write 0, 50ms, 20ms..80ms or ~50ms\n", status: 400)
            }
        }
        var streams: UInt32?
        if let text = request.parameter("streams") {
            streams = UInt32(text)
            guard streams != nil else { return .text("streams '\(text)' is not a number\n", status: 400) }
        }
        let names = request.parameters.filter { $0.name == "fault" }.map(\.value)
        let gatewayNames = request.parameters.filter { $0.name == "gateway" }.map(\.value)
        var rules: [FaultRule] = []
        var gateway: [GatewayFault] = []
        do throws(SimulatorError) {
            for name in names where !name.isEmpty { rules.append(try FaultRule(text: name)) }
            for name in gatewayNames where !name.isEmpty { gateway.append(try GatewayFault(text: name)) }
        } catch {
            return .text("\(error)\n", status: 400)
        }
        if let latency { switches.latency = latency }
        if let streams { switches.streams = streams }
        if !names.isEmpty { switches.rules = rules }
        if !gatewayNames.isEmpty { switches.gateway = gateway }
        return .json(describe(switches))
    }

    private static func inject(_ switches: FaultSwitches, _ request: HTTPRequest) -> HTTPResponse {
        guard let name = request.parameter("fault"), let fault = Fault(name: name) else {
            let names =
                NamedFault.all.filter(\.fault.isOfConnection).map(\.name)
                + ["streams-NNN", "goaway:REASON", "goaway-now:REASON"]
            return .text("which fault? one of \(names.joined(separator: ", "))\n", status: 400)
        }
        guard fault.isOfConnection else {
            return .text(
                "'\(name)' is a fault of a request, not of a connection: use /faults?fault=\(name)@1s\n", status: 400)
        }
        return .json("{\"connections\":\(switches.inject(fault))}\n")
    }
}
