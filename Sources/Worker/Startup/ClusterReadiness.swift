package import Configuration
package import Kafka

/// Waits until Kafka can be reached and has every topic as it must be.
package struct ClusterReadiness {
    private let configuration: WorkerConfiguration
    private let topics: Topics
    private let check: TopicCheck
    /// Why no broker answered, as told last: librdkafka does not repeat itself.
    private var lastReason: String?

    /// - Throws: `StartFailure` for properties that librdkafka does not take.
    package init(_ configuration: WorkerConfiguration, _ cluster: ClusterSettings) throws(StartFailure) {
        self.configuration = configuration
        check = TopicCheck(configuration)
        do throws(KafkaError) {
            topics = try Topics(cluster)
        } catch {
            throw StartFailure(["kafka: \(error)"])
        }
    }

    package enum Outcome {
        /// With so many partitions of request topics, those that patterns find now included, and lines about what may lose records one day.
        case ready(requestPartitions: Int, warnings: [String])
        /// No broker answered; the text says why.
        case unreachable(String)
    }

    /// One try, which waits at most `timeoutMs` for each of its questions.
    ///
    /// - Throws: `StartFailure` when Kafka answered and something is missing or unsafe.
    package mutating func attempt(timeoutMs: Int32) throws(StartFailure) -> Outcome {
        var found: [String: TopicDescription]
        do throws(KafkaError) {
            found = try topics.all(timeoutMs: timeoutMs)
        } catch {
            lastReason = lastClientError() ?? lastReason
            return .unreachable(lastReason ?? "\(error)")
        }
        if let how = configuration.kafka.createTopics, !check.missing(in: found).isEmpty {
            let results: [String: KafkaError]
            do throws(KafkaError) {
                results = try topics.create(check.creations(in: found, how), timeoutMs: timeoutMs)
                found = try topics.all(timeoutMs: timeoutMs)
            } catch {
                return .unreachable("\(error)")
            }
            let failed = results.filter { $0.value.code != .none && $0.value.code != .topicAlreadyExists }
            guard failed.isEmpty else {
                throw StartFailure(failed.map { "topic \($0.key) could not be created: \($0.value.text)" }.sorted())
            }
        }
        let missing = check.missingLines(in: found)
        guard missing.isEmpty else { throw StartFailure(missing) }
        let configurations = try? topics.configurations(of: check.expected.map(\.name), timeoutMs: timeoutMs)
        let unsafeLines = check.unsafeLines(configurations ?? [:])
        guard unsafeLines.isEmpty else { throw StartFailure(unsafeLines) }
        var requests: Set<String> = []
        for entry in configuration.requestTopics {
            requests.formUnion(entry.isPattern ? entry.matching(found.keys) : [entry.name])
        }
        requests.subtract(configuration.outputTopics.map(\.name))
        let partitions = requests.reduce(0) { $0 + (found[$1]?.partitions ?? 0) }
        return .ready(
            requestPartitions: partitions, warnings: check.warningLines(configurations))
    }

    private func lastClientError() -> String? {
        var text: String?
        for case .error(let error) in topics.events() { text = error.text }
        return text
    }
}
