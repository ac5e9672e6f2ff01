import Configuration
import EventLoop
import Kafka
import Replay

func replay(_ arguments: [String]) throws -> ExitCode {
    let (source, options): (ReplaySource, ReplayOptions) = try parsed(
        ReplayOptions.table, arguments, ReplayOptions(), "kind of record")
    try options.check(source)
    var (configuration, cluster) = try loaded(options.file)
    cluster.clientID += "-replay"
    // The signals are blocked before librdkafka creates its threads, because threads inherit the signal mask.
    let signals = StopSignals()
    let deadline = Deadline(after: options.deadline)
    let began = LoopTime.read()
    let order = try options.order(source, configuration, nowMs: began.wallMs)
    for hint in options.hints(source) { complain("apns-worker replay: \(hint)") }
    var isStopped = false
    let wait = BrokerWait(
        cluster, limitMs: nil,
        leftMs: {
            isStopped = isStopped || signals.take()
            return isStopped ? 0 : deadline.leftMs
        }, report: Troubles().say)
    var last = ReplayReport()
    var pause = Deadline(after: .seconds(10))
    func seconds() -> Double { Double(LoopTime.read().monotonicNs - began.monotonicNs) / 1e9 }
    do {
        let run = try ReplayRun(order, cluster, wait) { line in
            complain(oneLine(line, limit: 600))
        } progressed: { report in
            last = report
            guard pause.hasPassed else { return }
            pause = Deadline(after: .seconds(10))
            complain(order.summary(report, seconds()))
        }
        last = try run.run()
    } catch let error as CommandFailure where error.kind == .stopped {
        complain(
            "apns-worker replay: \(isStopped ? "stopped" : "--deadline reached") before all records were \(order.isDryRun ? "read" : "processed; run the same command again to continue")"
        )
    }
    for place in last.unmatched {
        complain(oneLine("\(place): no result or dead letter of this request matches", limit: 600))
    }
    say((options.format == .json ? order.json(last, seconds()) : order.summary(last, seconds())) + "\n")
    if options.format == .text, order.isDryRun { say(order.table(last)) }
    let hasMissed = [ReplayOutcome.gone, .unreadable, .refused].contains { last.counts[$0, default: 0] > 0 }
    return last.isDone && !hasMissed && last.unmatched.isEmpty ? .fine : .failed
}
