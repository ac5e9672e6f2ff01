package import CLinux
package import PushRecords

// The types that the delivery machine and the transports exchange: batches of requests, and batches of completions. In
// the worker, the machine and the transports run on different threads, so the batches pass through mailboxes.

/// The identity of a notification, the same for each of its sends. The generation changes when the number is reused,
/// and the delivery machine ignores completions with an older generation.
package struct NotificationID: Hashable, Sendable {
    package var number: UInt32
    package var generation: UInt32

    @inlinable package init(number: UInt32, generation: UInt32) {
        self.number = number
        self.generation = generation
    }

    /// The id as one integer. The worker passes it to librdkafka as the opaque value of a record.
    @inlinable package var tag: UInt64 { UInt64(generation) << 32 | UInt64(number) }

    @inlinable package init(tag: UInt64) {
        self.init(number: UInt32(truncatingIfNeeded: tag), generation: UInt32(tag >> 32))
    }

    // Written by hand, because a synthesized operator is not inlined into other modules.
    @inlinable package static func == (left: Self, right: Self) -> Bool {
        left.number == right.number && left.generation == right.generation
    }
}

/// An app's index, which does not change while the worker runs.
package struct AppIndex: Hashable, Sendable {
    package var value: Int

    @inlinable package init(_ value: Int) { self.value = value }

    @inlinable package static func == (left: Self, right: Self) -> Bool { left.value == right.value }
}

/// A request to send one notification. The transport borrows the request's bytes and does not copy them. They stay
/// valid and unchanged until the delivery machine receives the request's completion.
package struct OutgoingRequest: @unchecked Sendable {
    package var id: NotificationID
    /// The device token in lower-case hex, or the base64 channel id if `isBroadcast` is set.
    package var token: UnsafeRawBufferPointer
    /// The payload, as the producer wrote it.
    package var payload: UnsafeRawBufferPointer
    /// The request headers. The topic is not empty.
    package var headers: ParsedRequest.Headers
    package var isBroadcast: Bool
    /// Whether the notification was in flight on several lost connections, or APNs repeatedly refused to process it.
    /// The request then uses the app's quarantine connection, and does not count towards the reported capacity.
    package var isSuspect: Bool
    /// The topic, partition and offset of the notification's record for crash reports, or `nil` if there is no record.
    package var place: UnsafePointer<CrashPlace>?

    @inlinable package init(
        id: NotificationID, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer,
        headers: ParsedRequest.Headers, isBroadcast: Bool = false, isSuspect: Bool = false,
        place: UnsafePointer<CrashPlace>? = nil
    ) {
        self.id = id
        self.token = token
        self.payload = payload
        self.headers = headers
        self.isBroadcast = isBroadcast
        self.isSuspect = isSuspect
        self.place = place
    }
}

/// The outcome of one send. Every request handed to a transport gets exactly one completion.
package struct Completion: Sendable {
    package enum Kind: UInt8, Sendable {
        /// APNs answered with `status` and `reason`, or the notification is presumed accepted (binary protocol).
        case answered
        /// The request was certainly not processed: APNs refused or discarded it, or it was recalled or never
        /// completely written (`Unprocessed`).
        case notProcessed
        /// APNs may have processed the request: the connection was lost, the stream was reset, or no answer came in
        /// time.
        case inDoubt
    }

    /// The reason why a request was not processed.
    package enum Unprocessed: UInt8, Sendable {
        /// The request was on no connection or not completely written, or a gateway reported that it processed nothing.
        case neverSent
        /// APNs refused the request: with REFUSED_STREAM, with a GOAWAY (except `discarded`), or by a reset or a closed
        /// flow-control window before the body's end. The notification may be the cause of repeated refusals, so the
        /// delivery machine counts them and finally moves the notification to a retry tier.
        case refusedByPeer
        /// Binary protocol: the gateway discarded the request because of an error in an earlier notification. HTTP/2:
        /// the request's stream was above the last stream id of a graceful GOAWAY, and was not the first such stream.
        /// The delivery machine resends the request immediately.
        case discarded
        /// The gateway discarded the request, and the app is configured not to resend discarded notifications.
        case discardedForGood
    }

    package var id: NotificationID
    package var kind: Kind
    /// The reason why the request was not processed, if `kind` is `notProcessed`.
    package var unprocessed: Unprocessed
    package var reason: ReasonCode
    /// The HTTP status, the gateway's status (binary protocol), or 0 without an answer.
    package var status: UInt16
    /// The index in `CompletionBatch.texts` of a reason without a `ReasonCode`, or -1.
    package var reasonText: Int32
    /// The index in `CompletionBatch.texts` of `apns-unique-id` (development only), or -1.
    package var uniqueIDText: Int32
    /// The id that APNs created because the request had none, or `.none` if there is no such id.
    package var apnsID: NotificationUUID
    /// When the token became invalid according to a 410, in milliseconds since the epoch, or 0 if unknown.
    package var unregisteredAtMs: Int64
    /// When the request was passed to a connection (wall clock, milliseconds since the epoch), or 0 if it was not.
    package var sentAtMs: Int64
    /// Whether the send is in doubt because its connection was lost (binary protocol: while no other notification was
    /// open). Each such loss counts towards quarantine unless `connectionWasSilent`.
    package var connectionDied: Bool
    /// Whether the connection was given up because nothing arrived on any connection of the app, or because a gateway
    /// stopped reading or did not answer a fence. The loss then does not count against the notification.
    package var connectionWasSilent: Bool
    /// Whether a resend would use a newer provider token, or a connection that replaced this one. Not set for a 200.
    package var carriedOlderToken: Bool
    /// Whether the notification counts as accepted because the peer stayed silent (binary protocol).
    package var isPresumed: Bool

    @inlinable
    package init(
        id: NotificationID, kind: Kind, unprocessed: Unprocessed = .neverSent, status: UInt16 = 0,
        reason: ReasonCode = .none, reasonText: Int32 = -1, uniqueIDText: Int32 = -1, apnsID: NotificationUUID = .none,
        unregisteredAtMs: Int64 = 0, sentAtMs: Int64 = 0,
        connectionDied: Bool = false, connectionWasSilent: Bool = false, carriedOlderToken: Bool = false,
        isPresumed: Bool = false
    ) {
        self.id = id
        self.kind = kind
        self.unprocessed = unprocessed
        self.status = status
        self.reason = reason
        self.reasonText = reasonText
        self.uniqueIDText = uniqueIDText
        self.apnsID = apnsID
        self.unregisteredAtMs = unregisteredAtMs
        self.sentAtMs = sentAtMs
        self.connectionDied = connectionDied
        self.connectionWasSilent = connectionWasSilent
        self.carriedOlderToken = carriedOlderToken
        self.isPresumed = isPresumed
    }
}

/// The completions of one turn of a transport's thread, in the order in which they were determined.
package struct CompletionBatch: Sendable {
    package var app: AppIndex
    package var completions: [Completion]
    /// The texts to which completions refer. Usually there are none.
    package var texts: [String]

    package init(app: AppIndex, completions: [Completion] = [], texts: [String] = []) {
        self.app = app
        self.completions = completions
        self.texts = texts
    }
}

/// A command from the delivery machine to a transport.
package enum TransportCommand: Sendable {
    /// Send these requests. Not counting suspects, they must not raise the number of unanswered requests above the last
    /// reported capacity.
    case send([OutgoingRequest])
    /// Complete as `notProcessed` each listed request that is not on a connection yet. Sent when a partition is revoked
    /// or suspended.
    case recall([NotificationID])
    /// Wait for the answers to requests on connections, complete all other requests as `notProcessed`, and close.
    /// `TransportEvent.closed` follows.
    case close
}

/// A report from a transport to the delivery machine.
package enum TransportEvent: Sendable {
    case completions(CompletionBatch)
    /// How many requests of this app may be unanswered at once, over all its connections. While the capacity is 0, the
    /// transport completes waiting requests as `notProcessed`.
    ///
    /// Suspects do not count. If the capacity falls below the number of unanswered requests, the delivery machine sends
    /// nothing until enough of them are completed.
    case capacity(app: AppIndex, requests: Int)
    /// Whether APNs can be reached, reported at each change and not before the first dial has ended.
    /// - False: a dial failed and no connection is ready, connections ended without an answer, or no ready connection
    ///   allows streams.
    /// - True: a ready connection allows streams. After several connections without an answer, only an answer counts.
    case reachable(app: AppIndex, Bool)
    /// APNs refused the app's credential without answering a request: with a GOAWAY (`BadCertificate`,
    /// `BadCertificateEnvironment` or similar debug data) or a TLS alert. Reported only for the current credential, and
    /// before the completions of the turn, so that nothing is resent with the refused credential.
    case credentialRefused(app: AppIndex, reason: ReasonCode)
    /// The host accepts requests and has answered none for 9 s. Reported at each change. `nil` means that a request was
    /// answered, none has been open for a while, or the host was changed.
    case unanswered(app: AppIndex, Unanswered?)
    /// The number of the app's connections, reported at each change.
    case connections(app: AppIndex, ConnectionCounts)
    /// An event for the log. A transport does not write to the log.
    case note(app: AppIndex, TransportNote)
    case closed(app: AppIndex)
}

/// The number of an app's connections, by state.
package struct ConnectionCounts: Sendable, Equatable {
    /// Connections that are not ready yet: DNS lookup, TCP connect, TLS handshake, or waiting for SETTINGS.
    package var dialing = 0
    /// Connections that accept requests.
    package var open = 0
    /// Connections that accept no more requests and close after their last answer.
    package var draining = 0
    /// The number of requests that the open connections allow at once: HTTP/2 streams, or notifications without an
    /// outcome (binary protocol). The transport accepts some more requests (`TransportEvent.capacity`), so that no
    /// stream is idle while the delivery machine processes an answer.
    package var streams = 0

    package init() {}
}

/// A host that does not answer requests.
package struct Unanswered: Sendable, Equatable {
    package var host: String
    /// The HTTP/2 error code of the streams that the host ends without an answer, or `nil` if it does not end them.
    /// PROTOCOL_ERROR also stands for a stream that ended without a status.
    package var endedBy: String?

    package init(host: String, endedBy: String?) {
        self.host = host
        self.endedBy = endedBy
    }
}

/// Events of a transport's connections, for log and metrics.
package enum TransportNote: Sendable, Equatable {
    /// A connection is open. `streams` is the number of concurrent requests that the peer allows, or `nil` if the
    /// protocol has no such limit.
    case connected(address: String, streams: Int?)
    /// No connection could be made, or the last ones ended without an answer. The next dial is in `retryInMs`.
    case connectFailed(host: String, reason: String, retryInMs: Int64)
    /// No ready connection allows a stream, so no request can be sent (HTTP/2).
    case noStreams(host: String)
    case disconnected(address: String, reason: String, unanswered: Int)
    /// The peer announced that it will close the connection, with a GOAWAY or, in the binary protocol, with status 0 or
    /// 10. `unprocessed` is the number of requests that the peer did not process.
    case peerCloses(address: String, reason: String, unprocessed: Int)
    /// The numbers of GOAWAY and RST_STREAM frames that the peer sent since the previous note, by HTTP/2 error code
    /// from 0 to 13. The last number is for all other codes.
    case peerErrors(goAways: [Int], resets: [Int])
    /// Binary protocol: a response shows that up to `lostAtMost` notifications were not delivered, although their
    /// results report `accepted`.
    case windowTooShort(address: String, status: UInt16, lostAtMost: Int, windowMs: Int64)
    /// Binary protocol: a connection was closed because the peer stopped reading from it or did not answer a fence. Up
    /// to `lostAtMost` notifications that counted as accepted were not delivered, although their results report
    /// `accepted`.
    case presumedUnread(address: String, lostAtMost: Int)
    /// Binary protocol: a response of the gateway, which determines outcomes. `accepted` is the number of notifications
    /// up to the one that the response names, and `discarded` the number of later ones.
    case answered(address: String, status: UInt16, isOfFence: Bool, accepted: Int, discarded: Int)
    /// Binary protocol: how many notifications on a connection count as accepted because the gateway stayed silent, and
    /// how many are open. Reported at most once a second while some are open, and when none are left.
    case silent(address: String, accepted: Int, open: Int)
    /// Binary protocol: the time of silence after which a notification counts as accepted was increased.
    case windowLengthened(windowMs: Int64)
    /// New requests use a new provider token. `issuedMs` is the token's `iat` in milliseconds since the epoch.
    case providerTokenRenewed(keyID: String, issuedMs: Int64)
    /// A connection could not be made, because the server rejected the client certificate.
    case credentialFault(reason: String)
    /// The transport replaces one or all connections for this reason.
    case replacing(String)
    /// A problem of the app's certificate, for example that it expires soon.
    case certificate(String)
    /// The header of an HTTP/2 frame that was sent or received.
    case frame(address: String, isSent: Bool, type: String, flags: String, stream: Int, length: Int)
}
