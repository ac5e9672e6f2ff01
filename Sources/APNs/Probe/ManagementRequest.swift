internal import EventLoop
internal import HTTP2
package import Network
internal import PushRecords

/// Sends one request to the host that manages broadcast channels, over a separate connection, and returns the answer.
///
/// Source: Apple, "Sending channel management requests to APNs".
package enum ManagementRequest {
    package enum Operation: Sendable, Hashable {
        /// Creates a channel.
        ///
        /// - Parameter storesMostRecent: the `message-storage-policy`: 1 to store the most recent message, 0 to store
        ///   none.
        case create(storesMostRecent: Bool)
        case read(channel: String)
        case delete(channel: String)
        case list

        fileprivate var parts: (method: String, resource: String, channel: String?, body: String) {
            switch self {
            case .create(let storesMostRecent):
                (
                    "POST", "channels", nil,
                    #"{"message-storage-policy":\#(storesMostRecent ? 1 : 0),"push-type":"LiveActivity"}"#
                )
            case .read(let channel): ("GET", "channels", channel, "")
            case .delete(let channel): ("DELETE", "channels", channel, "")
            case .list: ("GET", "all-channels", nil, "")
            }
        }
    }

    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        /// The response header `apns-request-id`, or empty if there was none.
        package var requestID: String
        /// The response header `apns-channel-id`, or empty if there was none.
        package var channelID: String
        package var body: [UInt8]
    }

    /// The maximum size of an answer in bytes. 10,000 channel ids take about 300 KB.
    private static let answerLimit = 4 << 20

    /// - Parameter token: the provider token, or `nil` if the client certificate authenticates.
    package static func send(
        _ operation: Operation, bundleID: String, _ configuration: APNsConfiguration, token: ProviderToken?,
        timeoutNs: Int64
    ) throws(ChannelEnd) -> Answer {
        let target = configuration.connections.target
        let name = target.text
        let own = try ProbeLoop(name)
        var options = ClientSession.Options()
        options.responseLimit = answerLimit
        options.wantedHeaders = ["apns-request-id", "apns-channel-id"]
        var isSent = false
        // The reason of a GOAWAY, for error texts.
        var goAway = ""
        let request = try ProbeSession<Answer>(options, name) { session, _ throws(HTTP2Error) in
            while let event = session.nextEvent() {
                switch event {
                case .response(_, let status):
                    return .success(
                        Answer(
                            status: status, requestID: text(session.responseHeader(0)),
                            channelID: text(session.responseHeader(1)), body: Array(session.responseBody)))
                case .ended(_, let code, _):
                    return .failure(ChannelEnd("\(name): the host ended the request's stream with \(code)"))
                case .goAway:
                    let said = session.goAwayData.withUnsafeBytes { ErrorBody(parsing: $0) }
                    goAway = "; the host sent GOAWAY \(said.reason.text?.description ?? said.text ?? "")"
                case .bodySent, .settings, .pong: break
                }
            }
            guard session.isReady, !isSent, session.freeStreams > 0 else { return nil }
            isSent = true
            let fields = fields(operation, bundleID, authority: configuration.authority, token: token)
            let body = UnsafeRawBufferPointer.lasting(operation.parts.body.utf8)
            guard try session.submit(fields, body: body, user: 0, keep: 0b11) == .refused else { return nil }
            return .failure(ChannelEnd("\(name): the HTTP/2 connection accepts no more requests"))
        }
        do throws(ChannelEnd) {
            return try own.exchange(
                target, configuration.connections.tls, request, timeoutNs: timeoutNs,
                timedOut: ChannelEnd("\(name): no answer within \(timeoutNs / 1_000_000) ms"))
        } catch {
            throw ChannelEnd(error.text + goAway, kind: error.kind)
        }
    }

    private static func fields(
        _ operation: Operation, _ bundleID: String, authority: String, token: ProviderToken?
    ) -> HeaderList {
        var list = HeaderList()
        list.append(":method", .lasting(operation.parts.method.utf8))
        list.append(":scheme", "https")
        list.append(":path", .lasting("/1/apps/\(bundleID)/\(operation.parts.resource)".utf8), .never)
        list.append(":authority", .lasting(authority.utf8))
        if let token {
            token.refresh(now: LoopTime.read())
            list.append("authorization", token.headerValue, .credential)
        }
        if let channel = operation.parts.channel { list.append("apns-channel-id", .lasting(channel.utf8), .never) }
        return list
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        String(decoding: bytes.prefix(1_000), as: UTF8.self)
    }
}
