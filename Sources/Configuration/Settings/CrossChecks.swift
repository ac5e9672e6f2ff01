// What no single key can be right or wrong about.

extension WorkerConfiguration {
    func check(_ reading: Reading) {
        checkTopics(reading)
        checkApps(reading)
    }

    /// No topic has two uses, and no pattern reads what the worker itself writes: it would answer its own answers.
    private func checkTopics(_ reading: Reading) {
        var uses: [String: String] = [:]
        for (index, topic) in requestTopics.enumerated() {
            let path = "requests.topics[\(index)]"
            if uses[topic.name] != nil {
                reading.refuse(path, "\(quoted(topic.name)) stands twice")
            } else {
                uses[topic.name] = path
            }
        }
        for (path, name) in outputTopics {
            if let other = uses[name] {
                reading.refuse(
                    reading.isGiven(path) ? path : other,
                    "the topic \(name) already is \(reading.isGiven(path) ? other : path)")
            } else {
                uses[name] = path
            }
        }
        for (index, topic) in requestTopics.enumerated() where topic.isPattern {
            guard let pattern = try? Pattern(topic.name) else { continue }
            for (path, name) in outputTopics where pattern.matches(name) {
                reading.refuse(
                    "requests.topics[\(index)]",
                    "the pattern \(quoted(topic.name)) also fits \(name), which the worker writes (\(path))")
            }
        }
    }

    private func checkApps(_ reading: Reading) {
        var names: Set<String> = []
        for (index, app) in apps.enumerated() where !app.name.isEmpty && !names.insert(app.name).inserted {
            reading.refuse("apps[\(index)].name", "another app has the name \(quoted(app.name))")
        }
    }
}
