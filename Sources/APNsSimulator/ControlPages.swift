import EventLoop
import HTTPServer

/// The pages of the control endpoint, which show the recorded requests and set faults. Handlers run on the page
/// server's thread.
struct ControlPages: Sendable {
    let books: Books
    let switches: FaultSwitches
    var channels = ChannelBook()
    var feedback = FeedbackList()

    var routes: [Route] {
        [
            Route(.get, "/") { _ in .text(Self.help) },
            Route(.get, "/totals") { [books] _ in .json(books.totals.json) },
            route(.get, "/accepted") { try dump(.accepted, $0) },
            route(.get, "/received") { try dump(.received, $0) },
            route(.get, "/tokens") { try dump(.tokens, $0) },
            Route(.get, "/channels") { _ in .text(listChannels()) },
            Route(.get, "/feedback") { [feedback] _ in .text(feedback.text) },
            route(.post, "/feedback", addFeedback),
            Route(.post, "/reset") { [books] _ in
                books.reset()
                return .json(books.totals.json)
            },
            Route(.get, "/faults") { _ in .json(describeFaults()) },
            route(.post, "/faults", changeFaults),
            route(.post, "/now", inject),
        ]
    }

    /// Wraps a handler so that a thrown error is answered with 400 and the error's text.
    private func route(
        _ method: HTTPRequest.Method, _ path: String,
        _ handler: @escaping @Sendable (HTTPRequest) throws -> HTTPResponse
    ) -> Route {
        Route(method, path) { request in
            do { return try handler(request) } catch { return .text("\(error)\n", status: 400) }
        }
    }

    static let help = """
        GET  /totals     counts since the start or the last reset, as JSON; leniencies counts provider
                         tokens that violate the RFCs but that APNs accepts
        GET  /accepted   lines "apns-id token count" of accepted notifications, in the order of first arrival
        GET  /received   lines "apns-id token count" of notifications that were or may have been processed
        GET  /tokens     lines "token arrived accepted"
                         ?from=N skips the first N notifications (or tokens)
        GET  /channels   lines "bundle-id channel-id policy arrived accepted" of all broadcast channels;
                         policy: 0 stores nothing, 1 the most recent message
        GET  /feedback   lines "token seconds" of tokens that the feedback service will report
        POST /feedback?token=HEX&seconds=N     adds the token of a device that removed the app at this Unix time
                         /accepted and /received list notifications of the binary gateway with an
                         apns-id of zeros; a count above 1 in /accepted counts duplicates
        POST /reset      clears recorded requests and counts; keeps channels and feedback
        GET  /faults     the current latency, streams and faults
        POST /faults?latency=50ms&streams=100&fault=goaway@10000&fault=cut-after@5s
                         sets the given parameters; an empty fault= removes all faults
                         for example, fault=blackhole@1 silences every connection, including new ones
        POST /faults?gateway=close@1000&gateway=split
                         sets the faults of new connections of the binary gateway
        POST /now?fault=goaway          injects the fault into every open connection; tcp-reset and
                         cut-before also close connections silenced by a fault

        """

    private func listChannels() -> String {
        channels.all.map { channel in
            let counts = books.counts(ofChannel: channel.id)
            return "\(channel.bundleID) \(channel.id) \(channel.policy.rawValue) \(counts.arrived) \(counts.accepted)\n"
        }.joined()
    }

    private func dump(_ listing: Books.Listing, _ request: HTTPRequest) throws(SimulatorError) -> HTTPResponse {
        let text = request.parameter("from") ?? "0"
        guard let first = Int(text), first >= 0 else {
            throw SimulatorError("from must be an integer of at least 0, not '\(text)'")
        }
        let cursor = Guarded(Books.Cursor(listing: listing, index: first))
        return HTTPResponse(
            contentType: "text/plain",
            body: .stream { room in
                nonisolated(unsafe) let room = room
                return cursor.withLock { books.dump(&$0, into: room) }
            })
    }

    private func addFeedback(_ request: HTTPRequest) throws(SimulatorError) -> HTTPResponse {
        guard let token = request.parameter("token"), let seconds = request.parameter("seconds").flatMap(UInt32.init)
        else { throw SimulatorError("give a token and a Unix time: /feedback?token=HEX&seconds=N") }
        feedback.add(try SimulatorOptions.FeedbackItem(token: token, seconds: seconds))
        return .text(feedback.text)
    }

    private func describeFaults() -> String {
        switches.with { acceptors in
            let latency = acceptors.service.options.latency.text
            let rules = acceptors.rules.map { "\"\($0.text)\"" }.joined(separator: ",")
            let names = acceptors.gatewayFaults.names.map { "\"\($0)\"" }.joined(separator: ",")
            let gateway = names.isEmpty ? "" : ",\"gateway\":[\(names)]"
            return "{\"latency\":\"\(latency)\",\"streams\":\(acceptors.streams),\"faults\":[\(rules)]\(gateway)}\n"
        }
    }

    private func changeFaults(_ request: HTTPRequest) throws(SimulatorError) -> HTTPResponse {
        if let unknown = request.unknownParameter(besides: ["latency", "streams", "fault", "gateway"]) {
            throw SimulatorError("there is no parameter '\(unknown)'; use latency, streams, fault or gateway")
        }
        let latency = try request.parameter("latency").map { text throws(SimulatorError) in
            if let latency = Latency(text: text) { return latency }
            throw SimulatorError("latency '\(text)': write 0, 50ms, 20ms..80ms or ~50ms")
        }
        let streams = try request.parameter("streams").map { text throws(SimulatorError) in
            if let streams = UInt32(text) { return streams }
            throw SimulatorError("streams '\(text)' is not a number")
        }
        /// Returns the non-empty values of a query parameter, or `nil` if the query does not contain the parameter.
        func names(_ name: String) -> [String]? {
            let values = request.parameters.filter { $0.name == name }.map(\.value)
            return values.isEmpty ? nil : values.filter { !$0.isEmpty }
        }
        let rules = try names("fault")?.map { name throws(SimulatorError) in try FaultRule(text: name) }
        let gateway = try names("gateway").map { names throws(SimulatorError) in try GatewayFaults(names) }
        switches.with { acceptors in
            if let latency { acceptors.service.options.latency = latency }
            if let streams { acceptors.streams = streams }
            if let rules { acceptors.rules = rules }
            if let gateway { acceptors.gatewayFaults = gateway }
        }
        return .json(describeFaults())
    }

    private func inject(_ request: HTTPRequest) throws(SimulatorError) -> HTTPResponse {
        guard let name = request.parameter("fault"), let fault = Fault(name: name) else {
            let named = Fault.named.filter(\.fault.isOfConnection).map(\.name)
            let names = named + ["streams-NNN", "goaway:REASON", "goaway-now:REASON"]
            throw SimulatorError("give fault=NAME with one of \(names.joined(separator: ", "))")
        }
        guard fault.isOfConnection else {
            throw SimulatorError("'\(name)' is a fault of a request, not of a connection: use /faults?fault=\(name)@1s")
        }
        return .json("{\"connections\":\(switches.with { $0.inject(fault) })}\n")
    }
}
