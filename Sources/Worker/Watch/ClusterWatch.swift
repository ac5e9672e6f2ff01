internal import Configuration
internal import EventLoop
internal import Kafka
internal import Observability
internal import Synchronization

/// Asks the brokers every 5 s how the worker's topics and groups stand, on a thread and with clients of its own: what
/// the worker's own clients say about that comes once, late, or never, and the core must not wait for an answer.
///
/// A round asks for the metadata of the topics (of all of them where a pattern is configured), which tell the
/// partitions without a leader or with too few replicas in sync, too (`LastingPartitions`), for the end of each
/// partition that is to be read, and for the
/// right to read each topic (one to three requests to the coordinator; at most 32 topics in a round, one after the
/// other). Every other round asks for the configuration of the topics that are named, too. Every question has a limit
/// of 1.5 s.
final class ClusterWatch: Sendable {
    private let thread: LoopThread
    private let returned: Returned
    private let looksForLeftTiers = Flag()

    /// When the last question came back, with an answer or without one (monotonic).
    private final class Returned: Sendable {
        let atNs = Atomic(LoopTime.read().monotonicNs)

        func note() { atNs.store(LoopTime.read().monotonicNs, ordering: .relaxed) }
    }

    /// When the last question came back, with an answer or without one, or the watch began to ask (monotonic). Any
    /// thread.
    ///
    /// Every question has a limit, and of a round that takes many of them none tells how long it may take: a client
    /// that brings none back does not come back itself.
    var lastReturnNs: Int64 { returned.atNs.load(ordering: .relaxed) }

    /// Set by the core, for the next round.
    private final class Flag: Sendable {
        let isSet = Atomic(false)
    }

    static let everyNs: Int64 = 5_000_000_000
    /// Of each question.
    static let timeoutMs: Int32 = 1_500
    /// Every 10 s.
    private static let roundsForConfigurations = 2
    /// Left tiers are looked for once in so many rounds: every minute.
    private static let roundsForLeftTiers = 12
    /// Where nobody may be told of them, every 5 minutes.
    private static let roundsForUntoldTiers = 60

    /// Starts asking; `reports` gets what came out, from the watch's thread.
    init(
        _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, reports: Mailbox<ClusterReport>
    ) throws(SystemError) {
        let returned = Returned()
        self.returned = returned
        thread = try LoopThread(name: "watch") { [looksForLeftTiers] loop in
            let rounds = Rounds(configuration, cluster, loop, reports, returned, looksForLeftTiers)
            rounds.begin()
        }
    }

    /// Looks for left tiers in the next round: the members of the group have changed, and with them perhaps who writes
    /// to which. Any thread.
    func lookForLeftTiers() { looksForLeftTiers.isSet.store(true, ordering: .relaxed) }

    /// Asks no more; returns when the round in hand is over.
    func stop() {
        thread.stop()
        thread.join()
    }

    /// What only the watch's thread touches.
    private final class Rounds {
        private let configuration: WorkerConfiguration
        private let cluster: ClusterSettings
        /// Its timers hold this object.
        private unowned let loop: Loop
        private let reports: Mailbox<ClusterReport>
        private let returned: Returned
        private let looksForLeftTiers: Flag
        private let check: TopicCheck
        private var probes: [ClusterProbe] = []
        private var number = 0
        /// The first round after the start looks for them, too.
        private var roundForLeftTiers = 0
        private var firstTopic = 0
        private var leaderless = LastingPartitions()
        private var outOfSync = LastingPartitions()
        /// `min.insync.replicas` of the topics that are written, as far as brokers told it.
        private var leastInSync: [String: Int] = [:]
        private var silentGroups = SilentGroups()

        private static let topicsInARound = 32

        init(
            _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, _ loop: Loop,
            _ reports: Mailbox<ClusterReport>, _ returned: Returned, _ looksForLeftTiers: Flag
        ) {
            self.returned = returned
            self.looksForLeftTiers = looksForLeftTiers
            check = TopicCheck(configuration)
            self.configuration = configuration
            self.cluster = cluster
            self.loop = loop
            self.reports = reports
        }

        func begin() {
            let startNs = LoopTime.read().monotonicNs
            let report = round()
            returned.note()
            _ = reports.post(report)
            if report.silence == nil {
                let isWanted = looksForLeftTiers.isSet.exchange(false, ordering: .relaxed)
                if isWanted || number >= roundForLeftTiers { lookForLeftTiers(report) }
            }
            number += 1
            // From beginning to beginning, so that a slow round does not make the next one late.
            let takenNs = LoopTime.read().monotonicNs - startNs
            loop.schedule(afterNs: max(500_000_000, ClusterWatch.everyNs - takenNs)) { self.begin() }
        }

        private func round() -> ClusterReport {
            let now = LoopTime.read()
            var report = ClusterReport(atNs: now.monotonicNs)
            do throws(KafkaError) {
                let probe = try probe()
                returned.note()
                let named = try probe.topics(
                    named: configuration.requestTopics.filter { !$0.isPattern }.map(\.name)
                        + configuration.outputTopics.map(\.name), timeoutMs: ClusterWatch.timeoutMs)
                returned.note()
                var all: [String: TopicDescription] = [:]
                if configuration.requestTopics.contains(where: \.isPattern) {
                    all = try probe.allTopics(timeoutMs: ClusterWatch.timeoutMs)
                    returned.note()
                }
                report.topics = topics(named, all)
                lookAtReplicas(&report, report.topics.compactMap { named[$0.name] ?? all[$0.name] })
                let partitions = report.topics.filter { $0.use != .written && $0.isKnown }.flatMap { topic in
                    let count = (named[topic.name] ?? all[topic.name])?.partitions ?? 0
                    return (0..<Int32(clamping: count)).map { TopicPartition(topic.name, $0) }
                }
                report.ends = probe.ends(of: partitions, timeoutMs: ClusterWatch.timeoutMs)
                returned.note()
                askForRights(&report)
                if number % ClusterWatch.roundsForConfigurations == 1 {
                    report.unsafeTopics = unsafeTopics(probe)
                }
            } catch {
                for probe in probes { probe.noteErrors() }
                report.silence = probes.first?.lastError?.text ?? error.text
                return report
            }
            return report
        }

        private func lookAtReplicas(_ report: inout ClusterReport, _ told: [TopicDescription]) {
            let led = leaderless.look(told) { $0.leaderless }
            let inSync = outOfSync.look(told) { topic in
                leastInSync[topic.name].map { topic.outOfSync(least: $0) } ?? []
            }
            for index in report.topics.indices {
                let name = report.topics[index].name
                report.topics[index].leaderless = led[name]
                report.topics[index].outOfSync = inSync[name].map { found in
                    ClusterReport.Topic.OutOfSync(partitions: found, least: leastInSync[name] ?? 0)
                }
            }
        }

        /// Takes four questions, one after the other: nothing else of a round waits for them, nor does the start.
        private func lookForLeftTiers(_ report: ClusterReport) {
            var report = report
            defer { returned.note() }
            var rounds = ClusterWatch.roundsForLeftTiers
            do throws(KafkaError) {
                let look = try LeftTiers(configuration, cluster, timeoutMs: ClusterWatch.timeoutMs)
                report.leftTiers = look.found
                report.otherTopics = look.existing
            } catch {
                report.leftTiersFailure = error
                if error.code.isDenied { rounds = ClusterWatch.roundsForUntoldTiers }
            }
            _ = reports.post(report)
            roundForLeftTiers = number + rounds
        }

        /// `nil`: the brokers do not tell.
        private func unsafeTopics(_ probe: ClusterProbe) -> [TopicCheck.Unsafe]? {
            let names = check.expected.map(\.name)
            guard let told = try? probe.configurations(of: names, timeoutMs: ClusterWatch.timeoutMs) else { return nil }
            for output in configuration.outputTopics {
                if let found = told[output.name] { leastInSync[output.name] = found.leastInSync }
            }
            return check.atRisk(told)
        }

        private func probe() throws(KafkaError) -> ClusterProbe {
            if let first = probes.first { return first }
            for role in [ConsumerSettings.Role.requests, .retries] {
                let group = configuration.consumer(role, of: cluster).memberGroupID
                probes.append(try ClusterProbe(cluster, groupID: group))
            }
            return probes[0]
        }

        private func topics(
            _ named: [String: TopicDescription], _ all: [String: TopicDescription]
        ) -> [ClusterReport.Topic] {
            let tiers = Set(configuration.retry.tiers.map(\.topic))
            var topics: [ClusterReport.Topic] = []
            var seen = Set(configuration.outputTopics.map(\.name))
            for entry in configuration.requestTopics {
                let names = entry.isPattern ? entry.matching(all.keys).sorted() : [entry.name]
                for name in names where seen.insert(name).inserted {
                    topics.append(
                        ClusterReport.Topic(
                            name: name, path: "requests.topics", use: .requests,
                            metadata: (named[name] ?? all[name])?.code))
                }
            }
            for output in configuration.outputTopics {
                topics.append(
                    ClusterReport.Topic(
                        name: output.name, path: output.path, use: tiers.contains(output.name) ? .retries : .written,
                        metadata: named[output.name]?.code))
            }
            return topics
        }

        /// Whether the groups may be used, and the topics be read by them.
        private func askForRights(_ report: inout ClusterReport) {
            for (probe, use) in zip(probes, [ClusterReport.Topic.Use.requests, .retries]) {
                let group = configuration.consumer(use == .requests ? .requests : .retries, of: cluster).memberGroupID
                var names = report.topics.filter { $0.use == use && $0.isKnown }.map(\.name)
                if names.count > Self.topicsInARound {
                    let first = firstTopic % names.count
                    names = Array((names[first...] + names[..<first]).prefix(Self.topicsInARound))
                    firstTopic = first + Self.topicsInARound
                }
                // Without a topic to ask about, any one tells of the group.
                if names.isEmpty { names = [configuration.results.topic] }
                let codes = probe.rights(to: names, timeoutMs: ClusterWatch.timeoutMs)
                returned.note()
                for index in report.topics.indices where report.topics[index].use == use {
                    report.topics[index].reading = codes[report.topics[index].name]
                }
                report.groups.append(ClusterReport.Group(id: group, code: Self.group(codes, probe)))
            }
            silentGroups.look(&report.groups)
        }

        /// What the answers about a group's topics tell about the group.
        private static func group(_ codes: [String: KafkaCode], _ probe: ClusterProbe) -> KafkaCode? {
            if codes.values.contains(where: { $0 == KafkaCode.none || $0 == .topicAuthorizationFailed }) {
                return KafkaCode.none
            }
            // Whoever may not even describe the group is not told its coordinator.
            if codes.values.contains(.groupAuthorizationFailed) || probe.isGroupRefused {
                return .groupAuthorizationFailed
            }
            return codes.values.first
        }
    }
}
