internal import EventLoop
internal import Kafka

/// Asks how logs stand of which one broker said what would make reading begin anew, with a client of its own while
/// there are questions: neither a reader nor a commit waits for it. On one loop's thread, which other things of that
/// loop get in between: after each question, which takes three times `timeoutMs` at most.
final class LogQuestions {
    struct Answer: Sendable {
        var partition: TopicPartition
        var state: LogState
    }

    /// Who asks more is to ask again.
    static let waitingLimit = 256
    private static let timeoutMs: Int32 = 1_500

    private let cluster: ClusterSettings
    /// Its timers hold this object.
    private unowned let loop: Loop
    private let answers: Mailbox<Answer>
    private var questions: [TopicPartition] = []
    private var probe: LogProbe?

    init(_ cluster: ClusterSettings, loop: Loop, answers: Mailbox<Answer>) {
        self.cluster = cluster
        self.loop = loop
        self.answers = answers
    }

    /// Of one log, in a row: a topic that was just made has no leader for some time.
    private static let silenceLimit = 5
    private static let pauseNs: Int64 = 200_000_000
    private var silences = 0

    /// Asks for one partition's log. Where nobody tells, there is no answer, and who still needs it asks again.
    func ask(_ partition: TopicPartition) {
        guard !questions.contains(partition), questions.count < Self.waitingLimit else { return }
        questions.append(partition)
        if questions.count == 1 { loop.schedule(afterNs: 0) { self.move() } }
    }

    private func move() {
        guard let partition = questions.first else { return }
        if probe == nil { probe = try? LogProbe(cluster) }
        if let state = probe?.look(at: partition, timeoutMs: Self.timeoutMs) {
            answers.post(Answer(partition: partition, state: state))
        } else {
            silences += 1
            if silences < Self.silenceLimit {
                loop.schedule(afterNs: Self.pauseNs) { self.move() }
                return
            }
        }
        silences = 0
        questions.removeFirst()
        if questions.isEmpty {
            probe = nil
        } else {
            loop.schedule(afterNs: 0) { self.move() }
        }
    }
}
