internal import Configuration
internal import Delivery
internal import Kafka
internal import Observability

// What the watch tells the worker.
extension PushWorker {
    /// Takes how things stand at the brokers: what keeps a topic from being read may be over, and
    /// retry topics that were left may be found, or be empty.
    func take(_ report: ClusterReport) {
        observations.clusterReport = report
        for reader in readers { reader.take(report) }
        if let unsafe = report.unsafeTopics { observations.unsafeTopics = unsafe }
        if let failure = report.leftTiersFailure { missLeftTiers(failure) }
        guard stopping == nil, let retries = groups?.retries, let found = report.leftTiers else { return }
        let (begun, ended) = leftTiers.take(found: found, existing: report.otherTopics, nowNs: now.ns)
        guard !begun.isEmpty || !ended.isEmpty else { return }
        for tier in begun {
            logger.info(
                .kafka, "a retry topic that is not configured any more is read until it is empty",
                ["topic": "\(tier.topic)", "records": .count(tier.records)])
        }
        for topic in ended {
            logger.info(
                .kafka, "a retry topic that is not configured any more is read no more: it is empty, or gone",
                ["topic": "\(topic)"])
        }
        retries.subscribe(to: configuration.retry.tiers.map(\.topic) + leftTiers.topics, now: now)
    }

    func missLeftTiers(_ failure: KafkaError) {
        let advice =
            failure.code.isDenied
            ? "allow Describe on them and on the group, or they are not read" : "asked again in a minute"
        logger.warning(
            .kafka, "cannot ask which retry topics the group has left",
            ["error": .text(failure.text), "advice": .text(advice)])
    }
}
