import Configuration
import EventLoop
import Kafka
import Replay
import Worker

/// `apns-worker replay`.
func replay(_ arguments: [String]) -> ExitCode {
    let command = ReplayOptions.table.command
    let (word, rest) = operand(arguments)
    return parsed(ReplayOptions.table, rest, ReplayOptions()).flatMap { options in
        choice(word, of: command, " to replay", "what is to be replayed?", ReplaySource.self).flatMap { source in
            if let complaint = options.complaint(source) {
                complain("\(command): \(complaint) (see \(command) --help)")
                return .failure(Exit(code: .wrongUsage))
            }
            return loaded(options.file ?? "").flatMap { configuration, cluster in
                if let complaint = options.complaint(configuration) {
                    complain("\(command): \(complaint)")
                    return .failure(Exit(code: .wrongUsage))
                }
                return .success(replay(source, configuration, cluster, options))
            }
        }
    }.code
}

private func replay(
    _ source: ReplaySource, _ configuration: WorkerConfiguration, _ cluster: ClusterSettings, _ options: ReplayOptions
) -> ExitCode {
    // Before librdkafka's threads, which inherit the mask.
    let signals = StopSignals()
    let deadline = Deadline(after: options.deadline)
    var isStopped = false
    var cluster = cluster
    cluster.clientID += "-replay"
    let began = LoopTime.read()
    let order = options.order(source, configuration, nowMs: began.wallMs)
    let screen = ReplayScreen(order)
    for hint in options.hints(source) { screen.tell("apns-worker replay: \(hint)") }
    let troubles = Troubles()
    let wait = BrokerWait(
        cluster, limitMs: nil,
        leftMs: {
            isStopped = isStopped || signals.came(withinMs: 0)
            return isStopped ? 0 : deadline.leftMs
        },
        report: { text in
            screen.clear()
            troubles.say(text)
        })
    var last = ReplayReport()
    do throws(CommandFailure) {
        let run = try ReplayRun(order, cluster, wait) { line in
            screen.tell(line)
        } progressed: { report in
            last = report
            screen.show(report)
        }
        last = try run.run()
        screen.clear()
    } catch {
        screen.clear()
        guard error.kind == .stopped else {
            complain("apns-worker replay: \(error)")
            return .failed
        }
        complain(
            "apns-worker replay: \(isStopped ? "stopped" : "--deadline came") before all was \(order.isDryRun ? "looked at" : "done; the same command goes on")"
        )
    }
    for place in last.unmatched { screen.tell("\(place): nothing of it matches") }
    let seconds = Double(LoopTime.read().monotonicNs - began.monotonicNs) / 1e9
    say(options.format == .json ? order.json(last, seconds) + "\n" : order.text(last, seconds))
    return last.isDone && last.counts.missed == 0 && last.unmatched.isEmpty ? .fine : .failed
}
