package import Network
package import PushRecords
internal import PushTransport

/// Sends requests for a device token of zeros, as an app would: what APNs answers proves the credential for a topic or
/// names its fault, and no device gets anything.
package enum CredentialProbe {
    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        package var reason: ReasonCode
        /// Apple's word, known or not, or `nil` if none came.
        package var text: String?
    }

    /// Sends one topic after the other over one connection: Apple treats many that come and go as an attack. If it ends
    /// after an answer, the request without one is sent once more over the next connection.
    ///
    /// - Parameter take: gets each answer, or why there is none (the text names host and cause), which is the last.
    ///   Returns false to send no more.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topics: [String],
        timeoutNs: Int64 = 15_000_000_000, take: (_ topic: String, Result<Answer, ChannelEnd>) -> Bool
    ) {
        let lent = LentBytes()
        let deviceToken = lent.lend(String(repeating: "0", count: 64).utf8)
        let payload = lent.lend(#"{"aps":{}}"#.utf8)
        defer { withExtendedLifetime(lent) {} }
        let exchange: Exchange
        do throws(Exchange.Failure) {
            exchange = try Exchange(configuration, token: token)
        } catch {
            if let first = topics.first { _ = take(first, .failure(end(error, of: configuration, timeoutNs))) }
            return
        }
        defer { exchange.close() }
        var number: UInt32 = 0
        for topic in topics {
            let headers = NotificationHeaders(topic: lent.lend(topic.utf8), expiration: 0)
            func send() throws(Exchange.Failure) -> Exchange.Answer {
                number += 1
                let id = NotificationID(number: number, generation: 0)
                return try exchange.send(
                    OutgoingRequest(id: id, token: deviceToken, payload: payload, headers: headers),
                    isPatient: false, timeoutNs: timeoutNs)
            }
            do throws(Exchange.Failure) {
                let answer: Exchange.Answer
                do throws(Exchange.Failure) {
                    answer = try send()
                } catch .lost where topic != topics.first {
                    answer = try send()
                }
                let completion = answer.completion
                let text = answer.reasonText ?? completion.reason.text?.description
                let said = Answer(status: completion.status, reason: completion.reason, text: text)
                guard take(topic, .success(said)) else { return }
            } catch {
                _ = take(topic, .failure(end(error, of: configuration, timeoutNs)))
                return
            }
        }
    }

    private static func end(
        _ failure: Exchange.Failure, of configuration: APNsConfiguration, _ timeoutNs: Int64
    ) -> ChannelEnd {
        let name = DialTarget.text(configuration.host, configuration.port)
        switch failure {
        case .notSent(let reason): return ChannelEnd(.unreachable, reason ?? "\(name): no connection in time")
        case .lost(let reason): return ChannelEnd(.lost, "\(name): no answer\(reason.map { ": \($0)" } ?? "")")
        case .unanswered(let reason):
            let time = "within \(timeoutNs / 1_000_000) ms"
            return ChannelEnd(.lost, "\(name): no answer \(time)\(reason.map { ": \($0)" } ?? "")")
        }
    }
}
