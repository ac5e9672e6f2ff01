import Kafka

/// What goes wrong and is tried again: said at once, and then at most every ten seconds.
struct Troubles {
    private var pause = Deadline(after: .zero)

    mutating func say(_ error: KafkaError) { say(error.text) }

    mutating func say(_ text: String) {
        guard pause.hasPassed else { return }
        pause = Deadline(after: .seconds(10))
        complain("\(text); trying again")
    }
}
