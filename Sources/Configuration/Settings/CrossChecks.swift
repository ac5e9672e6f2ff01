internal import PushRecords

extension WorkerConfiguration {
    func check(_ reading: Reading) {
        checkTopics(reading)
        checkApps(reading)
        checkTimes(reading)
        let isSASL = kafka.properties.contains {
            $0.name == "security.protocol" && $0.value.lowercased().hasPrefix("sasl_")
        }
        if !kafka.oauthCommand.isEmpty, !isSASL {
            reading.refuse("kafka.oauth", "needs security.protocol: sasl_ssl under kafka.librdkafka")
        }
    }

    /// Checks that a drain ends within `max.poll.interval.ms`, after which the member leaves the group, and that
    /// the heartbeat interval is shorter than the session timeout.
    private func checkTimes(_ reading: Reading) {
        let poll = kafka.milliseconds(ofConsumerProperty: "max.poll.interval.ms", default: 300_000)
        let session = kafka.sessionTimeout.milliseconds
        // Without this property, the worker uses at most a third of the session timeout.
        let heartbeat = kafka.milliseconds(ofConsumerProperty: "heartbeat.interval.ms", default: 0)
        if drain.rebalance.milliseconds + Self.lastCommitMs > poll.value {
            reading.refuse(
                reading.isGiven("drain.rebalance") ? "drain.rebalance" : poll.path,
                "drain.rebalance (\(Quantity.text(drain.rebalance))) plus \(Self.lastCommitMs / 1_000) s for the last "
                    + "commit must not exceed max.poll.interval.ms (\(poll.value) ms), or the group removes the worker "
                    + "while it drains; shorten drain.rebalance, or set max.poll.interval.ms under kafka.consumer")
        }
        if heartbeat.value >= session {
            reading.refuse(
                heartbeat.path,
                "heartbeat.interval.ms (\(heartbeat.value) ms) must be below session_timeout "
                    + "(\(Quantity.text(kafka.sessionTimeout))), or the group removes the worker between two "
                    + "heartbeats; under kafka.consumer, set heartbeat.interval.ms to about a third of session_timeout")
        }
    }

    /// The time that a rebalance allows for the last commit, in addition to `drain.rebalance`.
    package static let lastCommitMs: Int64 = 5_000

    /// Checks that no topic has two uses, and that no request pattern matches an output topic. Otherwise, the worker
    /// could consume its own output, or mix different kinds of records in one topic.
    private func checkTopics(_ reading: Reading) {
        var uses: [String: String] = [:]
        for (index, topic) in requestTopics.enumerated() {
            let path = "requests.topics[\(index)]"
            if uses[topic.name] != nil {
                reading.refuse(path, "\(quoted(topic.name)) occurs twice")
            } else {
                uses[topic.name] = path
            }
            if RequestTopic.internalTopics.contains(topic.name) {
                reading.refuse(path, "\(topic.name) is an internal topic of Kafka and cannot be a request topic")
            }
        }
        for (path, name) in outputTopics {
            if let other = uses[name] {
                reading.refuse(
                    reading.isGiven(path) ? path : other,
                    "the topic \(name) is already used as \(reading.isGiven(path) ? other : path)")
            } else {
                uses[name] = path
            }
        }
        for (index, topic) in requestTopics.enumerated() where topic.isPattern {
            guard let pattern = try? Pattern(topic.name) else { continue }
            for (path, name) in outputTopics where pattern.matches(name) {
                reading.refuse(
                    "requests.topics[\(index)]",
                    "the pattern \(quoted(topic.name)) also matches \(name), to which the worker writes (\(path))")
            }
        }
    }

    private func checkApps(_ reading: Reading) {
        var names: Set<String> = []
        for (index, app) in apps.enumerated() where !app.name.isEmpty && !names.insert(app.name).inserted {
            reading.refuse("apps[\(index)].name", "another app has the name \(quoted(app.name))")
        }
        for index in apps.indices { checkOtherEnvironment(index, names.sorted(), reading) }
        for (index, topic) in requestTopics.enumerated() {
            guard let app = topic.app, !names.contains(app) else { continue }
            reading.refuse("requests.topics[\(index)].app", noApp(named: app, names.sorted()))
        }
    }

    private func noApp(named name: String, _ names: [String]) -> String {
        let advice = nearest(to: name, among: names).map { "; did you mean \(quoted($0))?" } ?? ""
        return "no app has the name \(quoted(name))\(advice)"
    }

    /// Checks that `other_environment` names an app of the other environment that has all bundle ids of this app.
    private func checkOtherEnvironment(_ index: Int, _ names: [String], _ reading: Reading) {
        let app = apps[index]
        guard let name = app.otherEnvironment else { return }
        let path = "apps[\(index)].other_environment"
        guard let other = apps.first(where: { $0.name == name }) else {
            return reading.refuse(path, noApp(named: name, names))
        }
        guard other.environment != app.environment else {
            return reading.refuse(
                path,
                "the app \(quoted(name)) is in \(app.environment.text), like this app; name an app of the "
                    + "other environment")
        }
        if let missing = app.bundleIDs.first(where: { !other.bundleIDs.contains($0) }) {
            reading.refuse(path, "the app \(quoted(name)) lacks the bundle id \(missing), which this app has")
        } else if other.otherEnvironment == nil, apps[..<index].contains(where: { $0.name == name }) {
            reading.warn(
                path,
                "requests that name no app go to \(quoted(name)), which is listed first and has no "
                    + "other_environment; list this app first")
        }
    }
}

extension KafkaSettings {
    /// Returns the value of a consumer property of librdkafka, and the property's configuration path. The section
    /// `kafka.consumer` takes precedence over `kafka.librdkafka`, and a later entry over an earlier one. A value that
    /// is not a number counts as the default (librdkafka rejects it later).
    fileprivate func milliseconds(
        ofConsumerProperty name: String, default: Int64
    ) -> (value: Int64, path: String) {
        for (section, list) in [("kafka.consumer", consumerProperties), ("kafka.librdkafka", properties)] {
            guard let property = list.last(where: { $0.name == name }) else { continue }
            return (Int64(property.value) ?? `default`, "\(section).\(name)")
        }
        return (`default`, "kafka.consumer.\(name)")
    }
}
