package import EventLoop
package import Network
package import TLS

/// One read of the feedback service. Used on the loop's thread only.
///
/// The server deletes items that it has sent, so the connection passes every valid item to `onItem`. While reading is
/// paused, TCP flow control stops the server.
package final class FeedbackConnection: ByteChannelDelegate {
    /// The time without a received byte after which the read fails.
    package static let silenceNs: Int64 = 30_000_000_000
    /// The time without a received byte after which the read fails, once `hurry` was called.
    private static let hurrySilenceNs: Int64 = 2_000_000_000

    private let name: String
    private let onItem: (_ seconds: UInt32, _ token: UnsafeRawBufferPointer) -> Void
    private let onEnd: (_ skipped: Int, _ failure: String?) -> Void
    private var parser = FeedbackParser()
    private var channel: SecureChannel?
    private var silence: Alarm?
    private var silenceNs = FeedbackConnection.silenceNs
    private var failure: String?
    private var isOpen = false

    /// Whether reading is paused. A pause suspends the silence limit, and does not interrupt a handshake.
    package var isPaused = false { didSet { applyPause() } }

    /// Starts dialing. The dial and the handshake may take up to 10 s each.
    ///
    /// - Parameter onEnd: is called once, at the end, and never before `init` returns. The connection keeps itself
    ///   alive until this call. `skipped` is the number of items whose token had an impossible length. `failure` is the
    ///   reason why items may be missing, or `nil` if the server sent all its items.
    package init(
        _ target: DialTarget, context: ClientContext, dialer: Dialer, loop: Loop,
        onItem: @escaping (_ seconds: UInt32, _ token: UnsafeRawBufferPointer) -> Void,
        onEnd: @escaping (_ skipped: Int, _ failure: String?) -> Void
    ) {
        name = target.text
        self.onItem = onItem
        self.onEnd = onEnd
        channel = SecureChannel(dialing: target, context: context, dialer: dialer, loop: loop, delegate: self)
        silence = Alarm(loop: loop) { [weak self] in self?.wasSilent() }
    }

    private func applyPause() {
        guard isOpen else { return }
        if isPaused { channel?.pauseReading() } else { channel?.resumeReading() }
        watchSilence()
    }

    /// Ends the read soon because the worker stops. Items that still arrive are read, but two seconds of silence end
    /// the read.
    package func hurry() {
        silenceNs = Self.hurrySilenceNs
        if !isOpen { return giveUp("\(name): the worker stopped before the connection was open") }
        watchSilence()
    }

    /// Closes the connection immediately. `onEnd` follows.
    package func giveUp(_ reason: String) {
        if failure == nil { failure = reason }
        channel?.abort()
    }

    private func watchSilence() {
        if isOpen, !isPaused { silence?.set(afterNs: silenceNs) } else { silence?.clear() }
    }

    private func wasSilent() {
        giveUp("\(name): the server sent nothing for \(silenceNs / 1_000_000_000) s and did not close the connection")
    }

    package func channelOpened(applicationProtocol: String?) {
        isOpen = true
        applyPause()
    }

    package func channelReceived(_ bytes: UnsafeRawBufferPointer) {
        parser.take(bytes, onItem)
        watchSilence()
    }

    package func channelClosed(_ end: ChannelEnd) {
        self.channel = nil
        silence = nil
        // Some servers close without a TLS close_notify. If the end is between two items, no item is missing.
        let isOver = end.kind == .closedByPeer || end.isEndOfStream
        if failure == nil, !isOver { failure = end.text }
        if failure == nil, parser.isInsideItem { failure = "\(name): the server closed before an item was complete" }
        onEnd(parser.skipped, failure)
    }
}

/// Parses the items of the feedback service from byte chunks of any size.
///
/// An item is big-endian: seconds since 1970 (4 bytes), the token's length (2), the token. Source: Apple, "Local and
/// Remote Notification Programming Guide", "Binary Provider API", "The Feedback Service" (archived).
package struct FeedbackParser {
    /// The valid lengths of a device token in bytes. Items with other lengths are skipped.
    package static let tokenLengths = 1...100
    private static let headBytes = 6

    /// The received part of an incomplete item: the head, and the first bytes of the token.
    private var begun: [UInt8] = []
    package private(set) var skipped = 0

    /// Whether the last item is incomplete.
    package var isInsideItem: Bool { !begun.isEmpty }

    private var tokenLength: Int { Int(begun[4]) << 8 | Int(begun[5]) }

    /// Calls `body` for each complete item. The token is valid during the call.
    package mutating func take(
        _ bytes: UnsafeRawBufferPointer, _ body: (_ seconds: UInt32, _ token: UnsafeRawBufferPointer) -> Void
    ) {
        var place = 0
        while place < bytes.count {
            let whole = begun.count < Self.headBytes ? Self.headBytes : Self.headBytes + tokenLength
            let taken = min(whole - begun.count, bytes.count - place)
            begun.append(contentsOf: bytes[place..<place + taken])
            place += taken
            guard begun.count >= Self.headBytes, begun.count == Self.headBytes + tokenLength else { continue }
            if Self.tokenLengths.contains(tokenLength) {
                let seconds = begun[..<4].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                begun.withUnsafeBytes { body(seconds, UnsafeRawBufferPointer(rebasing: $0[Self.headBytes...])) }
            } else {
                skipped += 1
            }
            begun.removeAll(keepingCapacity: true)
        }
    }
}
