internal import EventLoop
internal import HTTP2
package import Network
internal import PushRecords

/// One request to the host that manages broadcast channels, over a connection of its own, and its answer.
///
/// Runs a loop of its own on the calling thread, so it is not for a thread that has one.
/// Source: Apple, "Sending channel management requests to APNs".
package final class ManagementRequest: SecureChannelDelegate {
    package enum Operation: Sendable, Hashable {
        /// - Parameter storesMostRecent: `message-storage-policy`: 1 where the most recent message is kept, 0 for none.
        case create(storesMostRecent: Bool)
        case read(channel: String)
        case delete(channel: String)
        case list

        var method: String {
            switch self {
            case .create: "POST"
            case .read, .list: "GET"
            case .delete: "DELETE"
            }
        }

        /// The last part of the path.
        var resource: String { self == .list ? "all-channels" : "channels" }

        var channel: String? {
            switch self {
            case .read(let channel), .delete(let channel): channel
            case .create, .list: nil
            }
        }

        var body: String {
            guard case .create(let storesMostRecent) = self else { return "" }
            return #"{"message-storage-policy":\#(storesMostRecent ? 1 : 0),"push-type":"LiveActivity"}"#
        }
    }

    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        /// `apns-request-id`; empty: none came.
        package var requestID: String
        /// `apns-channel-id`; empty: none came.
        package var channelID: String
        package var body: [UInt8]

        package init(status: UInt16, requestID: String, channelID: String, body: [UInt8]) {
            self.status = status
            self.requestID = requestID
            self.channelID = channelID
            self.body = body
        }
    }

    /// Of an answer: 10,000 channel ids take some 300 KB.
    private static let answerLimit = 4 << 20

    private let session: ClientSession
    private let fields: LentFields
    private var isSent = false
    private var result: Result<Answer, ChannelEnd>?
    /// What a GOAWAY said, for whoever asks why there is no answer.
    private var farewell = ""
    private let name: String

    private init(_ fields: LentFields, name: String) throws(HTTP2Error) {
        var options = ClientSessionOptions()
        options.responseLimit = Self.answerLimit
        options.wantedHeaders = ["apns-request-id", "apns-channel-id"]
        session = try ClientSession(options: options)
        self.fields = fields
        self.name = name
    }

    /// - Parameters:
    ///   - configuration: host, port, proxy and TLS; the rest is not looked at.
    ///   - bundleID: letters, digits, dots, hyphens and underscores.
    ///   - token: `nil`: the client certificate says who asks.
    /// - Throws: `ChannelEnd`, whose text names host and cause: there is no answer.
    package static func send(
        _ operation: Operation, bundleID: String, _ configuration: APNsConfiguration, token: ProviderToken?,
        timeoutNs: Int64
    ) throws(ChannelEnd) -> Answer {
        let name = DialTarget.text(configuration.host, configuration.port)
        let own = try ProbeLoop(name)
        var authorization: [UInt8]?
        if let token {
            _ = token.refresh(now: LoopTime.read())
            authorization = Array(token.headerValue)
        }
        let request: ManagementRequest
        do throws(HTTP2Error) {
            request = try ManagementRequest(
                LentFields(
                    operation, bundleID: bundleID, authority: configuration.authority, authorization: authorization),
                name: name)
        } catch {
            throw ChannelEnd(.unreachable, "\(name): \(error)")
        }
        return try own.exchange(
            DialTarget(host: configuration.host, port: configuration.port, proxy: configuration.proxy),
            configuration.tls, request, timeoutNs: timeoutNs, for: { request.result }
        ) {
            ChannelEnd(.lost, "\(name): no answer within \(timeoutNs / 1_000_000) ms\(request.farewell)")
        }
    }

    package func channelOpened(_ channel: SecureChannel, applicationProtocol: String?) { flush(channel) }

    package func channelReceived(_ channel: SecureChannel, _ bytes: UnsafeRawBufferPointer) {
        do {
            try session.receive(bytes)
            while let event = session.nextEvent() { heed(event) }
            if session.isReady, !isSent, session.freeStreams > 0 {
                isSent = true
                let submission = try session.submit(fields.list, body: fields.body, user: 0, keep: 0b11)
                if submission == .refused { end(.failure(ChannelEnd(.lost, "\(name): takes no request\(farewell)"))) }
            }
        } catch {
            end(.failure(ChannelEnd(.lost, "\(name): HTTP/2: \(error)")))
        }
        flush(channel)
    }

    package func channelWritable(_ channel: SecureChannel) { flush(channel) }

    package func channelClosed(_ channel: SecureChannel, _ closed: ChannelEnd) {
        end(.failure(isSent ? ChannelEnd(.lost, "\(closed.text)\(farewell)") : closed))
    }

    private func heed(_ event: ClientSessionEvent) {
        switch event {
        case .response(_, let status):
            end(
                .success(
                    Answer(
                        status: status, requestID: Self.text(session.responseHeader(0)),
                        channelID: Self.text(session.responseHeader(1)), body: Array(session.responseBody))))
        case .ended(_, let code, _):
            end(.failure(ChannelEnd(.lost, "\(name): the request was ended: \(code)\(farewell)")))
        case .goAway:
            let said = session.goAwayData.withUnsafeBytes { ErrorBody(parsing: $0) }
            farewell = "; it said GOAWAY \(said.reason.text?.description ?? said.text ?? "")"
        case .bodySent, .settings, .pong: break
        }
    }

    private static func text(_ bytes: UnsafeRawBufferPointer) -> String {
        String(decoding: bytes.prefix(1_000), as: UTF8.self)
    }

    private func end(_ result: Result<Answer, ChannelEnd>) {
        if self.result == nil { self.result = result }
    }

    private func flush(_ channel: SecureChannel) {
        let taken = channel.send(session.output)
        try? session.consumeOutput(taken)
    }
}

/// A request's header fields and body, with the bytes that they lend.
private final class LentFields {
    private(set) var list = HeaderList()
    let body: UnsafeRawBufferPointer
    private var owned: [UnsafeMutableRawBufferPointer] = []

    init(
        _ operation: ManagementRequest.Operation, bundleID: String, authority: String, authorization: [UInt8]?
    ) {
        func own(_ bytes: some Collection<UInt8>) -> UnsafeMutableRawBufferPointer {
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count, alignment: 1)
            copy.copyBytes(from: bytes)
            return copy
        }
        let parts = [
            own(operation.method.utf8), own("/1/apps/\(bundleID)/\(operation.resource)".utf8), own(authority.utf8),
            own(operation.body.utf8), own(authorization ?? []), own((operation.channel ?? "").utf8),
        ]
        owned = parts
        body = UnsafeRawBufferPointer(parts[3])
        list.append(":method", UnsafeRawBufferPointer(parts[0]))
        list.append(":scheme", "https")
        list.append(":path", UnsafeRawBufferPointer(parts[1]), .never)
        list.append(":authority", UnsafeRawBufferPointer(parts[2]))
        if authorization != nil { list.append("authorization", UnsafeRawBufferPointer(parts[4]), .credential) }
        if operation.channel != nil { list.append("apns-channel-id", UnsafeRawBufferPointer(parts[5]), .never) }
    }

    deinit {
        for bytes in owned { bytes.deallocate() }
    }
}
