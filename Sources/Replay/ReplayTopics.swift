internal import PushRecords

/// The topics that requests are fetched from and written to: those that the workers read. Results and dead letters name
/// whatever their writer likes; of a topic that is none of the workers' nothing is read, and nothing is written to it.
package struct ReplayTopics: Sendable {
    private let isRequests: @Sendable (String) -> Bool
    private let retries: Set<String>

    /// - Parameters:
    ///   - retries: topics of retry records, which have dead letters, too.
    ///   - isRequests: whether a topic is one of requests.
    package init(retries: Set<String>, isRequests: @escaping @Sendable (String) -> Bool) {
        self.retries = retries
        self.isRequests = isRequests
    }

    /// What a dead letter's record of a topic is.
    func kind(of topic: String) -> ReplayWriter.Whole { retries.contains(topic) ? .retryLetter : .letter }

    /// Why nothing of a topic is asked for again; `nil`: it may be.
    func obstacle(_ topic: String, of source: ReplaySource) -> String? {
        if source == .deadLetters, retries.contains(topic) { return nil }
        return isRequests(topic) ? nil : "its topic is none of requests.topics, and the workers do not read it"
    }
}
