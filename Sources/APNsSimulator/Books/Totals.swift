package import PushRecords

/// Counts since the start or the last reset. Names of the fields are the members of the JSON text.
package struct Totals: Sendable, Equatable {
    /// Requests whose END_STREAM came and that were processed: accepted, refused, or swallowed by a fault.
    package var requests = 0
    /// Answered 200, or would have been had the connection not been cut: Apple would have shown them.
    package var accepted = 0
    /// Distinct pairs of apns-id and device token among them.
    package var acceptedDistinct = 0
    /// Acceptances beyond the first of their pair: duplicates.
    package var acceptedAgain = 0
    /// Refused with a reason.
    package var refused = 0
    /// Requests that fell to a fault and got no answer: swallowed, reset, cut off, on a blackholed connection.
    package var unanswered = 0
    /// Requests above a GOAWAY's last-stream-id, or refused with REFUSED_STREAM, and what the gateway read behind the
    /// notification that ended a connection: not processed, not in the books.
    package var notProcessed = 0
    package var connections = 0
    package var openConnections = 0
    package var goAways = 0
    /// Connections that the simulator cut.
    package var cuts = 0
    /// Distinct device tokens seen.
    package var tokens = 0
    /// Requests that the full book could not note.
    package var overflow = 0
    /// Distinct provider tokens whose signature was DER, and whose base64url had padding: both are taken (`TokenForm`).
    package var derSignatures = 0
    package var paddedTokens = 0
    /// Connections on which ALPN agreed on nothing, since the client did not offer it.
    package var withoutALPN = 0
    /// By reason, indexed by `ReasonCode`'s raw value.
    package var byReason = [Int](repeating: 0, count: 256)

    package init() {}

    /// How many were refused with a reason.
    package subscript(reason: ReasonCode) -> Int { byReason[Int(reason.rawValue)] }

    package var json: String {
        var text = "{\"requests\":\(requests),\"accepted\":\(accepted),\"accepted_distinct\":\(acceptedDistinct)"
        text += ",\"accepted_again\":\(acceptedAgain),\"refused\":\(refused),\"unanswered\":\(unanswered)"
        text += ",\"not_processed\":\(notProcessed),\"connections\":\(connections)"
        text += ",\"open_connections\":\(openConnections),\"goaways\":\(goAways),\"cuts\":\(cuts)"
        text += ",\"tokens\":\(tokens),\"overflow\":\(overflow),\"der_signatures\":\(derSignatures)"
        text += ",\"padded_tokens\":\(paddedTokens),\"without_alpn\":\(withoutALPN),\"reasons\":{"
        var separator = ""
        for code in ReasonCode.allCases where byReason[Int(code.rawValue)] > 0 {
            text += "\(separator)\"\(code.text?.description ?? "other")\":\(byReason[Int(code.rawValue)])"
            separator = ","
        }
        return text + "}}\n"
    }
}
