internal import EventLoop
internal import Glibc
internal import Kafka

/// What a replay waits for, and what it says meanwhile: it ends when it is told to, and has patience with brokers.
package struct ReplayWatch {
    private let isStopped: () -> Bool
    private let say: (String) -> Void

    /// - Parameters:
    ///   - isStopped: asked several times a second; true for good once the replay is to end.
    ///   - say: gets what is wrong and is tried again, in words.
    package init(isStopped: @escaping () -> Bool, say: @escaping (String) -> Void) {
        self.isStopped = isStopped
        self.say = say
    }

    var nowMs: Int64 { LoopTime.read().wallMs }
    var nowNs: Int64 { LoopTime.read().monotonicNs }

    /// Throws once the replay is to end.
    func check() throws(ReplayFailure) {
        if isStopped() { throw ReplayFailure("stopped", isStop: true) }
    }

    func trouble(_ text: String) { say(text) }

    func trouble(_ events: [ClientEvent]) {
        for case .error(let error) in events { say(error.text) }
    }

    func pause(ms milliseconds: Int64) throws(ReplayFailure) { try pause(untilNs: nowNs + milliseconds * 1_000_000) }

    func pause(untilNs deadlineNs: Int64) throws(ReplayFailure) {
        while true {
            try check()
            let leftUs = (deadlineNs - nowNs + 999) / 1_000
            guard leftUs > 0 else { return }
            usleep(UInt32(min(leftUs, 100_000)))
        }
    }

    /// Asks until there is an answer. `denial`: why it is of no use to ask again; `nil`: it may be.
    func patiently<R>(
        _ denial: (KafkaError) -> ReplayFailure?, _ question: () throws(KafkaError) -> R
    ) throws(ReplayFailure) -> R {
        while true {
            do throws(KafkaError) {
                return try question()
            } catch {
                if let failure = denial(error) { throw failure }
                trouble(error.text)
            }
            try pause(ms: 500)
        }
    }
}

extension ReplayFailure {
    /// Says which right is missing; `nil`: it is something else, or nothing.
    static func missing(_ denial: String?) -> ReplayFailure? { denial.map { ReplayFailure($0) } }

    static func reading(_ topic: String, _ code: KafkaCode) -> ReplayFailure? { missing(Denial.reading(topic, code)) }

    static func writing(_ topics: [String], _ code: KafkaCode) -> ReplayFailure? {
        guard code.isUnknownTopic else { return missing(Denial.writing(topics, code)) }
        return ReplayFailure("\(Denial.naming(topics)) cannot be written: create it, or give --to TOPIC")
    }

    /// Of the job's group, which is the producer's transactional id, too.
    static func committing(_ group: String, _ code: KafkaCode) -> ReplayFailure? {
        missing(Denial.using(group: group, code) ?? Denial.writing(transactionalID: group, code))
    }
}
