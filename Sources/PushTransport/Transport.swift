package import CLinux
package import PushRecords

// The vocabulary of the delivery machine and the transports: batches of requests go in, batches of completions come
// out. A transport runs on a thread of its own, and both sides pass whole batches through a mailbox.

/// One notification, the same for each of its tries: a number, and a generation that changes when the number is used
/// again. The machine ignores a completion of an older generation.
package struct NotificationID: Hashable, Sendable {
    package var number: UInt32
    package var generation: UInt32

    @inlinable package init(number: UInt32, generation: UInt32) {
        self.number = number
        self.generation = generation
    }

    /// Both as one word, which travels as the opaque tag of a produced record.
    @inlinable package var tag: UInt64 { UInt64(generation) << 32 | UInt64(number) }

    @inlinable package init(tag: UInt64) {
        self.init(number: UInt32(truncatingIfNeeded: tag), generation: UInt32(tag >> 32))
    }

    // Written out, because a synthesized operator is not inlined into other modules.
    @inlinable package static func == (left: Self, right: Self) -> Bool {
        left.number == right.number && left.generation == right.generation
    }
}

/// The position of an app in the configuration.
package struct AppIndex: Hashable, Sendable {
    package var value: Int

    @inlinable package init(_ value: Int) { self.value = value }

    @inlinable package static func == (left: Self, right: Self) -> Bool { left.value == right.value }
}

/// What a transport needs to send one notification. The bytes are borrowed: they stay valid and unchanged until the
/// completion of the request was handed back, so the transport copies none of them.
package struct OutgoingRequest: @unchecked Sendable {
    package var id: NotificationID
    /// Lower-case hex; the base64 channel id when `isBroadcast`.
    package var token: UnsafeRawBufferPointer
    /// The payload, as the producer wrote it.
    package var payload: UnsafeRawBufferPointer
    /// Its topic is never empty.
    package var headers: NotificationHeaders
    package var isBroadcast: Bool
    /// Whether connections died while the notification was on them. It then goes over the app's quarantine connection
    /// and does not count towards the reported capacity.
    package var isSuspect: Bool
    /// Where its record was read, for the report of a crash, or `nil` if it is not of a record.
    package var place: UnsafePointer<CrashPlace>?

    @inlinable package init(
        id: NotificationID, token: UnsafeRawBufferPointer, payload: UnsafeRawBufferPointer,
        headers: NotificationHeaders, isBroadcast: Bool = false, isSuspect: Bool = false,
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

/// How one try ended; every request handed to a transport is answered by exactly one.
package struct Completion: Sendable {
    package enum Kind: UInt8, Sendable {
        /// APNs answered with `status` and `reason`, or its silence counts as a 200.
        case answered
        /// APNs never processed it (over HTTP/2: GOAWAY above last-stream-id, REFUSED_STREAM; never written, recalled).
        case notProcessed
        /// It may have been processed: connection lost, reset, or no response in time.
        case inDoubt
    }

    /// Why it was not processed.
    package enum Unprocessed: UInt8, Sendable {
        /// It was on no connection, was recalled, or its last byte never left.
        case neverSent
        /// APNs refused it: REFUSED_STREAM, or a GOAWAY whose last stream is just below it. When repeated, that is
        /// about the notification: it is counted, and ends in a tier.
        case refusedByPeer
        /// The peer threw it away because of an earlier notification on the connection, which it named as wrong, or
        /// refused by a graceful GOAWAY. This one is sent again at once.
        case discarded
        /// The same, for an app that does not have such notifications sent again.
        case discardedForGood
    }

    package var id: NotificationID
    package var kind: Kind
    /// With `notProcessed`.
    package var unprocessed: Unprocessed
    package var reason: ReasonCode
    /// The HTTP status; 0 when there was no answer.
    package var status: UInt16
    /// Index into `CompletionBatch.texts` of a reason not known by name, or -1.
    package var reasonText: Int32
    /// Index into `CompletionBatch.texts` of `apns-unique-id` (development only), or -1.
    package var uniqueIDText: Int32
    /// The `apns-id` of the answer where it is a UUID, else `.none`. Only needed when none was sent.
    package var apnsID: NotificationUUID
    /// Apple's `timestamp` of a 410, in milliseconds since the epoch, or 0.
    package var unregisteredAtMs: Int64
    /// Wall clock when the request was handed to a connection, in milliseconds since the epoch; 0 if it never was.
    package var sentAtMs: Int64
    /// The connection died under this try (it counts towards quarantine, unless `connectionWasSilent`).
    package var connectionDied: Bool
    /// It was given up because nothing came any more, over it or another connection of the app: the network's fault,
    /// not the notification's.
    package var connectionWasSilent: Bool
    /// The next try goes out with another provider token, or over newer connections, than this one did. Not set for
    /// a 200.
    package var carriedOlderToken: Bool
    /// The peer was silent for long enough, in a protocol in which that is how it accepts.
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

/// Completions of one turn of a transport's thread, in the order in which they were decided.
package struct CompletionBatch: Sendable {
    package var app: AppIndex
    package var completions: [Completion]
    /// The rare strings that completions refer to.
    package var texts: [String]

    package init(app: AppIndex, completions: [Completion] = [], texts: [String] = []) {
        self.app = app
        self.completions = completions
        self.texts = texts
    }
}

/// What the core tells a transport.
package enum TransportCommand: Sendable {
    /// Send these; never more in total than the capacity last reported allows, suspects not counted.
    case send([OutgoingRequest])
    /// Give back, as `notProcessed`, whatever of these is not on a connection yet (a partition is being revoked).
    case recall([NotificationID])
    /// Finish what is on connections, give back the rest, close. Answered by `TransportEvent.closed`.
    case close
}

/// What a transport tells the core.
package enum TransportEvent: Sendable {
    case completions(CompletionBatch)
    /// How many requests of this app may be unanswered at once, over all its connections; 0 if none is connected, nor
    /// dialled for the first request that comes.
    /// A completion frees one, suspects take none. The transport may report less than is outstanding: then nothing is
    /// handed over until it fits.
    case capacity(app: AppIndex, requests: Int)
    /// Whether APNs can be reached, whenever that changes: false when a dial failed and no connection is ready, when
    /// one connection after the other ended without an answer, or when all that are ready allow no stream; true when
    /// one became ready that allows some, but after ends without an answer only once one was answered. Not reported
    /// before the first dial has ended.
    case reachable(app: AppIndex, Bool)
    /// APNs refused the app's credential without answering a request: by a GOAWAY whose debug data says so
    /// (`BadCertificate`, `BadCertificateEnvironment` and their like), or by a TLS alert. Reported only of connections
    /// with the present credential, and before the completions of that turn, so that nothing is sent again first.
    case credentialRefused(app: AppIndex, reason: ReasonCode)
    /// The host takes requests and has answered none for 9 s, whenever that or how it does so changes; `nil` when that
    /// is over (one was answered, or nothing is asked of it, or it is another host now).
    case unanswered(app: AppIndex, Unanswered?)
    /// How many connections there are, whenever that changes.
    case connections(app: AppIndex, ConnectionCounts)
    /// Something an operator wants to know; the transport itself never logs.
    case note(app: AppIndex, TransportNote)
    case closed(app: AppIndex)
}

/// An app's connections, by state.
package struct ConnectionCounts: Sendable, Equatable {
    /// Resolving, connecting, shaking hands, waiting for SETTINGS.
    package var dialing = 0
    /// Taking requests.
    package var open = 0
    /// Finishing what is on them.
    package var draining = 0
    /// What the open ones allow at once: streams of HTTP/2, undecided notifications of the binary protocol. The
    /// transport may take some more, so that none of them is idle while the core hears of an answer
    /// (`TransportEvent.capacity`).
    package var streams = 0

    package init() {}
}

/// How a host leaves requests without an answer.
package struct Unanswered: Sendable, Equatable {
    package var host: String
    /// The HTTP/2 error code with which the host ends them (PROTOCOL_ERROR also where a stream ends without a status),
    /// or `nil` if it does not end them.
    package var endedBy: String?

    package init(host: String, endedBy: String?) {
        self.host = host
        self.endedBy = endedBy
    }
}

/// Events of a transport's connections, for log and metrics.
package enum TransportNote: Sendable, Equatable {
    /// `streams`: how many requests it takes at once, or `nil` if its protocol has no such number.
    case connected(address: String, streams: Int?)
    /// A connection could not be made; the next try comes after `retryInMs`.
    case connectFailed(host: String, reason: String, retryInMs: Int64)
    /// Every connection that is ready takes no request (of HTTP/2: allows no stream): nothing can be sent.
    case noStreams(host: String)
    case disconnected(address: String, reason: String, unanswered: Int)
    /// The peer ends a connection in order (of HTTP/2: GOAWAY; of the binary protocol: status 10); `unprocessed` are
    /// sent again.
    case peerCloses(address: String, reason: String, unprocessed: Int)
    /// An error named a notification that the gateway's silence had accepted: it, and at most so many after it, were
    /// not delivered, though their results say so.
    case windowTooShort(address: String, status: UInt16, lostAtMost: Int, windowMs: Int64)
    /// A connection was given up because its peer reads nothing: at most so many of the notifications that its silence
    /// had accepted were not delivered, though their results say so.
    case presumedUnread(address: String, lostAtMost: Int)
    /// The peer's answer, in a protocol in which that is one for many: `accepted` came before the one that it names,
    /// and `discarded` after it.
    case answered(address: String, status: UInt16, isOfFence: Bool, accepted: Int, discarded: Int)
    /// Silence accepted so many on the connection so far; so many are still open. Once a second at most.
    case silent(address: String, accepted: Int, open: Int)
    /// So long silence is waited for from now on.
    case windowLengthened(windowMs: Int64)
    /// Requests carry another token from now on; `issuedMs`: its `iat`, in milliseconds since the epoch.
    case providerTokenRenewed(keyID: String, issuedMs: Int64)
    /// A connection could not be made, because the server refused the client certificate.
    case credentialFault(reason: String)
    /// A connection, or all, are made anew for this reason.
    case replacing(String)
    /// What Apple does not, or soon will not, like about the app's certificate.
    case certificate(String)
    /// The head of an HTTP/2 frame that passed on a connection.
    case frame(address: String, isSent: Bool, type: String, flags: String, stream: Int, length: Int)
}
