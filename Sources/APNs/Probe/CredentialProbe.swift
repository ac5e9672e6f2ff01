package import Network
package import PushRecords
internal import PushTransport

/// Sends requests for a device token of zeros, as an app would: what APNs answers proves the credential for a topic or
/// names its fault, and no device gets anything.
package enum CredentialProbe {
    package struct Answer: Sendable, Equatable {
        package var status: UInt16
        package var reason: ReasonCode
        /// Apple's word, known or not; `nil`: none came.
        package var text: String?
    }

    /// One topic after the other over one connection: Apple treats many that come and go as an attack. Where that ends
    /// after it gave an answer, the request that got none is sent once more over the next one.
    ///
    /// Runs a loop on the calling thread, so it is not for a thread that has one.
    ///
    /// - Parameters:
    ///   - topics: bundle ids of the app's, at least one.
    ///   - timeoutNs: of each.
    ///   - take: gets each answer as it comes, or why there is none: a `ChannelEnd` whose text names host and cause.
    ///     False:
    ///     that is enough. After one without an answer no more are sent.
    package static func run(
        _ configuration: APNsConfiguration, token: ProviderToken?, topics: [String],
        timeoutNs: Int64 = 15_000_000_000, take: (_ topic: String, Result<Answer, ChannelEnd>) -> Bool
    ) {
        // Lent to the requests, until their completions.
        let space = UnsafeMutableRawBufferPointer.allocate(
            byteCount: fixed.count + topics.reduce(0) { $0 + $1.utf8.count }, alignment: 1)
        defer { space.deallocate() }
        space.copyBytes(from: fixed)
        let exchange: Exchange
        do throws(Exchange.Failure) {
            exchange = try Exchange(configuration, token: token)
        } catch {
            if let first = topics.first { _ = take(first, .failure(end(error, of: configuration, timeoutNs))) }
            return
        }
        defer { exchange.close() }
        var used = fixed.count
        var slot: UInt32 = 0
        var mayEnd = false
        for topic in topics {
            let bytes = UnsafeMutableRawBufferPointer(rebasing: space[used..<(used + topic.utf8.count)])
            bytes.copyBytes(from: topic.utf8)
            used += bytes.count
            func send() throws(Exchange.Failure) -> Exchange.Answer {
                slot += 1
                return try exchange.send(
                    request(slot, topic: UnsafeRawBufferPointer(bytes), in: UnsafeRawBufferPointer(space)),
                    isPatient: false, timeoutNs: timeoutNs)
            }
            do throws(Exchange.Failure) {
                let answer: Exchange.Answer
                do throws(Exchange.Failure) {
                    answer = try send()
                } catch .lost where mayEnd {
                    answer = try send()
                }
                mayEnd = true
                let text = answer.reasonText ?? answer.completion.reason.text?.description
                guard
                    take(
                        topic,
                        .success(Answer(status: answer.completion.status, reason: answer.completion.reason, text: text))
                    )
                else { return }
            } catch {
                _ = take(topic, .failure(end(error, of: configuration, timeoutNs)))
                return
            }
        }
    }

    /// Device token and payload.
    private static let fixed = Array((String(repeating: "0", count: 64) + #"{"aps":{}}"#).utf8)

    private static func request(
        _ slot: UInt32, topic: UnsafeRawBufferPointer, in space: UnsafeRawBufferPointer
    ) -> OutgoingRequest {
        OutgoingRequest(
            id: NotificationID(number: slot, generation: 0),
            token: UnsafeRawBufferPointer(rebasing: space[..<64]),
            payload: UnsafeRawBufferPointer(rebasing: space[64..<fixed.count]),
            headers: NotificationHeaders(topic: topic, expiration: 0))
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
