internal import EventLoop
internal import Kafka

/// Finds where batches end of which librdkafka tells only the first offset, one batch after the other, with a client of
/// its own while there are any: the reader of the partition stays where it is meanwhile. On one loop's thread, which
/// other things of that loop get in between: after each question, which waits for `timeoutMs` at most.
final class BatchEnds {
    struct Question: Sendable, Hashable {
        var partition: TopicPartition
        var batch: BatchFailure.Batch
    }

    struct Answer: Sendable {
        var question: Question
        /// The batch's last offset.
        var last: Int64
    }

    /// Who asks more is to ask again.
    static let waitingLimit = 64
    private static let timeoutMs: Int32 = 1_500
    /// A batch is left when so many questions about it were not answered. Who still needs its end asks again.
    private static let silenceLimit = 4

    private let cluster: ClusterSettings
    /// Its timers hold this object.
    private unowned let loop: Loop
    private let answers: Mailbox<Answer>
    private var questions: [Question] = []
    /// For the first of them.
    private var search: BatchEndSearch?
    private var silences = 0
    private var probe: BatchProbe?

    init(_ cluster: ClusterSettings, loop: Loop, answers: Mailbox<Answer>) {
        self.cluster = cluster
        self.loop = loop
        self.answers = answers
    }

    /// Begins to look for the end of a batch. There is no answer where none can be found.
    func find(_ question: Question) {
        guard !questions.contains(question), questions.count < Self.waitingLimit else { return }
        questions.append(question)
        if questions.count == 1 { loop.schedule(afterNs: 0) { self.move() } }
    }

    private func move() {
        guard let question = questions.first else { return }
        if isOver(question) {
            questions.removeFirst()
            search = nil
            silences = 0
        }
        if questions.isEmpty {
            probe = nil
        } else {
            loop.schedule(afterNs: 0) { self.move() }
        }
    }

    /// Asks one question of the brokers at most.
    private func isOver(_ question: Question) -> Bool {
        if probe == nil { probe = try? BatchProbe(cluster) }
        guard let probe else { return true }
        guard var search else {
            guard let end = probe.end(of: question.partition, timeoutMs: Self.timeoutMs) else { return isSilent() }
            self.search = BatchEndSearch(question.batch, logEnd: end)
            return false
        }
        switch search.next {
        case .look(let offset):
            guard let finding = probe.look(at: offset, of: question.partition, timeoutMs: Self.timeoutMs) else {
                return isSilent()
            }
            search.found(finding)
            self.search = search
            return false
        case .ended(let last):
            // Where the mailbox is full, it is asked for again.
            answers.post(Answer(question: question, last: last))
            return true
        case .failed: return true
        }
    }

    private func isSilent() -> Bool {
        silences += 1
        return silences >= Self.silenceLimit
    }
}
