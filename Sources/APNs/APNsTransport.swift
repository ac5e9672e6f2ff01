package import EventLoop
internal import Glibc
package import HTTP2
package import Network
internal import PushRecords
package import PushTransport

/// Sends one app's notifications to APNs over HTTP/2. Used on the loop's thread only.
package final class APNsTransport: PooledTransport<HTTP2Connection> {
    private var configuration: APNsConfiguration
    private var token: ProviderToken?
    private var headers: RequestHeaders
    /// The generation of the token in `headers`, or 0 before the first token.
    private var seenToken: UInt32 = 0
    private var topicRenewalNs: Int64?
    /// Whether some connections return only server errors (5xx, or answers that are probably not from APNs).
    var hasErring = false
    /// The time at which a connection was last replaced because of server errors.
    private var errorReplacementNs: Int64?
    var answers: AnswerWatch
    private var answersAlarm: Alarm?
    private var reportedUnanswered: Unanswered?

    /// Dials the first connections immediately or, with a minimum of 0, when there is a request to send.
    ///
    /// - Parameter token: the provider token, shared by the apps of one key on this loop, or `nil` if the client
    ///   certificate authenticates.
    package init(
        app: AppIndex, configuration: APNsConfiguration, token: ProviderToken?, loop: Loop,
        dialer: any ChannelDialer, random: any RandomNumberGenerator = SystemRandomNumberGenerator(),
        emit: @escaping ([TransportEvent]) -> Void
    ) {
        self.configuration = configuration
        self.token = token
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        super.init(app: app, configuration.connections, loop: loop, dialer: dialer, random: random, emit: emit)
        answersAlarm = Alarm(loop: loop) { [unowned self] in outbox.askForTurnEnd() }
        start()
    }

    override func makeConnection(_ order: PooledConnection.DialOrder) -> HTTP2Connection {
        HTTP2Connection(order, configuration: configuration, token: token, transport: self)
    }

    // MARK: Replacement

    /// Replaces all connections with new ones that use this configuration and token. The old connections finish their
    /// requests. Waiting requests are sent on the first new connection. The backoff limits of the first configuration
    /// remain in effect.
    package func replace(configuration: APNsConfiguration, token: ProviderToken?) {
        loop.assertOnThread()
        guard !isClosing else { return }
        outbox.askForTurnEnd()
        self.configuration = configuration
        headers = RequestHeaders(authority: configuration.authority, hasToken: token != nil)
        if token !== self.token { seenToken = 0 }
        self.token = token
        if let token, seenToken != 0 { headers.setAuthorization(token.headerValue) }
        topicRenewalNs = nil
        errorReplacementNs = nil
        reachability.replaced()
        answers = AnswerWatch(limitNs: configuration.unansweredNs)
        replaceConnections(configuration.connections)
    }

    /// Handles a TopicDisallowed answer: replaces all connections if the connection that returned the answer is at
    /// least `topicAgeNs` old, at most once per `topicPauseNs`. APNs accepts a newly created bundle id on new
    /// connections only. If APNs answers TopicDisallowed on the new connections too, replacing them again would not
    /// help.
    func topicDisallowed(lifeNs: Int64) {
        let nowNs = loop.now.monotonicNs
        guard !isClosing, lifeNs >= configuration.topicAgeNs,
            topicRenewalNs.map({ nowNs - $0 >= configuration.topicPauseNs }) ?? true
        else { return }
        topicRenewalNs = nowNs
        outbox.note(
            .replacing("APNs refused one of the app's topics (TopicDisallowed); all connections are replaced"))
        replaceConnections(configuration.connections)
    }

    // MARK: Sending

    /// Hands each waiting request to the first connection that accepts the request. Few connections then get many
    /// requests each, so that writes are large.
    override func dispatch() {
        dispatchSuspects { connection, queue, most in
            refreshToken()
            connection.fill(from: &queue, headers: &headers, most: most)
        }
        guard !queue.isEmpty else { return }
        if plan.isAsleep { tell(.wanted) }
        refreshToken()
        for connection in connections where !queue.isEmpty { connection.fill(from: &queue, headers: &headers) }
    }

    /// Puts the current provider token into the request headers. Another app with the same key may have renewed it.
    private func refreshToken() {
        guard let token else { return }
        token.refresh(now: loop.now)
        guard token.generation != seenToken else { return }
        seenToken = token.generation
        headers.setAuthorization(token.headerValue)
        outbox.note(.providerTokenRenewed(keyID: token.keyID, issuedMs: token.issuedMs))
    }

    // MARK: Reports of connections

    /// Moves connections that return only server errors to the end of the order, so that other connections get requests
    /// first. Replaces one of them if it has returned only errors for `errorSpanNs` and the pause since the last
    /// replacement is over.
    private func replaceErring() {
        let erring = connections.filter { $0.isReady && $0.answers.isErring }
        hasErring = !erring.isEmpty
        guard hasErring else { return }
        putLast(erring)
        let nowNs = loop.now.monotonicNs
        let isAnotherGood = connections.contains { $0.isReady && !$0.answers.isErring }
        let pauseNs = isAnotherGood ? configuration.errorPauseNs : configuration.errorTrialPauseNs
        guard errorReplacementNs.map({ nowNs - $0 >= pauseNs }) ?? true,
            let worst = erring.first(where: { nowNs - $0.answers.erringSinceNs >= configuration.errorSpanNs })
        else { return }
        errorReplacementNs = nowNs
        let others = isAnotherGood ? ", while other connections answer without errors" : ""
        outbox.note(
            .replacing(
                "\(worst.address): the last \(worst.answers.errors) answers were server errors (5xx, or without a "
                    + "reason)\(others); replacing the connection"))
        retired(worst, isFault: false)
    }

    // MARK: The turn's end

    package override func turnEnded() {
        outbox.turnEnds()
        if hasErring { replaceErring() }
        dispatchAndFlush()
        let streams = connections.reduce(0) { $0 + $1.allowedStreams }
        let capacity = capacity(streams: streams)
        let isUseless = capacity == 0
        if isUseless { giveBackQueue() }
        updateStreamsAndReach(streams)
        // The quarantine connection has the same host, which probably allows no stream on it either.
        if isUseless, reachability.allowsNoStream { giveBackSuspects() }
        noticeSaturation(isFull: reportedCapacity > 0 && !connections.isEmpty && connections.allSatisfy(\.isFull))
        updateUnanswered()
        report(capacity: capacity, streams: streams)
    }

    private func updateStreamsAndReach(_ streams: Int) {
        let allowedNone = reachability.allowsNoStream
        if isAnyReady { reachability.allowsNoStream = streams == 0 }
        if reachability.allowsNoStream, !allowedNone { outbox.note(.noStreams(host: host)) }
        updateReach()
    }

    private func updateUnanswered() {
        answers.update(isAsked: isAsked, nowNs: loop.now.monotonicNs)
        answersAlarm?.set(noLaterThanNs: answers.deadlineNs)
        guard answers.isUnanswering || reportedUnanswered != nil else { return }
        let unanswered =
            answers.isUnanswering
            ? Unanswered(host: host, endedBy: answers.endCode?.description) : nil
        guard unanswered != reportedUnanswered else { return }
        reportedUnanswered = unanswered
        outbox.append(.unanswered(app: outbox.app, unanswered))
    }

    /// Whether a request waits for the host: on a connection, or in the queue while a connection is ready.
    private var isAsked: Bool {
        // If no connection is ready, the queued requests wait for a connection and not for an answer.
        if !queue.isEmpty, isAnyReady { return true }
        func isAsked(_ connection: HTTP2Connection) -> Bool { !connection.isSuperseded && connection.unanswered > 0 }
        return connections.contains(where: isAsked) || quarantineConnection.map(isAsked) == true
    }

    /// Returns how many requests may be unanswered at once.
    private func capacity(streams: Int) -> Int {
        if isClosing { return 0 }
        let leaving = leaving
        if streams == 0, plan.isOnDemand, !isAnyReady { return leaving + Self.slackLimit }
        // While the next connection is dialed and none is ready, report the same capacity as before. With capacity 0,
        // the transport would complete the waiting requests as not processed.
        if streams == 0 { return awaitsSuccessor ? reportedCapacity : 0 }
        if reachability.isOnProbation { return leaving + 1 }
        return leaving + streams + min(streams / 8, Self.slackLimit)
    }
}

/// Writes the header fields of each request into one reused list. Used on the loop's thread only.
///
/// The fields are those of Apple's "Sending notification requests to APNs". HPACK indexes fields that repeat. For a
/// field that changes with each request, HPACK indexes only the name (`HeaderIndexing`).
package struct RequestHeaders: ~Copyable {
    /// The slots of the field names that HPACK indexes once per connection, without their values.
    private enum NameSlot: UInt8 { case apnsID, expiration, requestID, channelID, collapseID }

    /// The response headers that the transport stores (`keep(for:)`).
    package static let wantedHeaders: [StaticString] = ["apns-id", "apns-unique-id", "apns-request-id"]

    private static let devicePath: StaticString = "/3/device/"
    private static let broadcastPath: StaticString = "/4/broadcasts/apps/"
    private static let pathField = 2
    /// The maximum length of a path in bytes. A device token has at most 200 hex digits, and a bundle id 155 bytes.
    private static let pathLimit = 512

    package private(set) var list = HeaderList()
    private let path: UnsafeMutableRawBufferPointer
    private let digits: UnsafeMutableRawBufferPointer
    private let uuid: UnsafeMutableRawBufferPointer
    private let authority: UnsafeMutableRawBufferPointer
    /// The number of fields that are the same for all requests.
    private let baseCount: Int
    private let hasToken: Bool

    /// - Parameter hasToken: whether requests have the field `authorization`, which `setAuthorization` sets.
    package init(authority: String, hasToken: Bool) {
        path = .allocate(byteCount: Self.pathLimit, alignment: 8)
        digits = .allocate(byteCount: 16, alignment: 8)
        uuid = .allocate(byteCount: NotificationUUID.textCount, alignment: 8)
        self.authority = .allocate(byteCount: authority.utf8.count, alignment: 1)
        self.authority.copyBytes(from: authority.utf8)
        self.hasToken = hasToken
        list.append(":method", "POST")
        list.append(":scheme", "https")
        list.append(":path", "/", .never)
        list.append(":authority", UnsafeRawBufferPointer(self.authority))
        if hasToken { list.append("authorization", "", .credential) }
        baseCount = list.count
    }

    deinit {
        path.deallocate()
        digits.deallocate()
        uuid.deallocate()
        authority.deallocate()
    }

    /// Sets the value of `authorization`. The value's bytes must stay valid until the next call.
    package mutating func setAuthorization(_ value: UnsafeRawBufferPointer) {
        guard hasToken else { return }
        list.replaceValue(at: baseCount - 1, value)
    }

    /// Fills `list` with the fields of `request`. The request's bytes must stay valid until the list is submitted.
    package mutating func write(_ request: borrowing OutgoingRequest) {
        list.truncate(to: baseCount)
        if request.isBroadcast {
            list.replaceValue(at: Self.pathField, joined(Self.broadcastPath, request.headers.topic))
            list.append("apns-channel-id", request.token, .nameOnly(slot: NameSlot.channelID.rawValue))
        } else {
            list.replaceValue(at: Self.pathField, joined(Self.devicePath, request.token))
            list.append("apns-topic", request.headers.topic)
        }
        list.append("apns-push-type", request.headers.pushType.text)
        switch request.headers.priority {
        case 0:
            // The default priority, sent explicitly. Apple's page on broadcasts does not say whether the field is
            // required.
            if request.isBroadcast { list.append("apns-priority", "10") }
        case 1: list.append("apns-priority", "1")
        case 5: list.append("apns-priority", "5")
        default: list.append("apns-priority", "10")
        }
        if let expiration = request.headers.expiration {
            // HPACK can index an expiration of 0, which repeats. Other times do not repeat.
            if expiration == 0 {
                list.append("apns-expiration", "0")
            } else {
                list.append("apns-expiration", decimal(expiration), .nameOnly(slot: NameSlot.expiration.rawValue))
            }
        }
        if request.headers.collapseID.count > 0 {
            list.append("apns-collapse-id", request.headers.collapseID, .nameOnly(slot: NameSlot.collapseID.rawValue))
        }
        if request.headers.apnsID != .none {
            request.headers.apnsID.writeText(to: uuid.baseAddress!)
            let text = UnsafeRawBufferPointer(uuid)
            if request.isBroadcast {
                list.append("apns-request-id", text, .nameOnly(slot: NameSlot.requestID.rawValue))
            } else {
                list.append("apns-id", text, .nameOnly(slot: NameSlot.apnsID.rawValue))
            }
        }
    }

    /// Returns which of `wantedHeaders` to store from the response, as a bit mask. `apns-unique-id`, which APNs sends
    /// only in development, is always stored. `apns-id` (`apns-request-id` for a broadcast) is stored only if the
    /// request has no id, so that Apple creates one.
    package static func keep(for request: borrowing OutgoingRequest) -> UInt8 {
        request.headers.apnsID != .none ? 0b10 : request.isBroadcast ? 0b110 : 0b11
    }

    private func joined(_ prefix: StaticString, _ rest: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer {
        let count = prefix.utf8CodeUnitCount
        precondition(count + rest.count <= Self.pathLimit, "Device tokens and bundle ids must fit into the path")
        memcpy(path.baseAddress!, prefix.utf8Start, count)
        if let base = rest.baseAddress { memcpy(path.baseAddress! + count, base, rest.count) }
        return UnsafeRawBufferPointer(rebasing: path[0..<(count + rest.count)])
    }

    private func decimal(_ value: UInt32) -> UnsafeRawBufferPointer {
        var rest = value
        var at = digits.count
        repeat {
            at -= 1
            digits[at] = UInt8(ascii: "0") + UInt8(rest % 10)
            rest /= 10
        } while rest > 0
        return UnsafeRawBufferPointer(rebasing: digits[at...])
    }
}
