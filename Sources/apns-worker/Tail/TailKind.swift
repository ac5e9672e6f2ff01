import Configuration

/// What `tail` follows.
enum TailKind: String, CaseIterable {
    case results, unregistered
    case deadLetters = "dead-letters"

    /// Its topic in a configuration.
    func topic(in configuration: WorkerConfiguration) -> String {
        switch self {
        case .results: configuration.results.topic
        case .unregistered: configuration.unregistered.topic
        case .deadLetters: configuration.deadLetters.topic
        }
    }
}

/// How records are printed.
enum OutputFormat: String, CaseIterable {
    case json, text
}
