import Glibc

// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
exit(run(Array(CommandLine.arguments.dropFirst())))

private func run(_ arguments: [String]) -> Int32 {
    let rest = Array(arguments.dropFirst())
    switch arguments.first {
    // Floors, servers and relay have a process of their own, which is this program again.
    case KafkaFloorOptions.command: return runKafkaFloor(rest)
    case SendFloorOptions.command: return runSendFloor(rest)
    case probeServer.name: return runProbeServer(rest)
    case sinkServer.name: return runSinkServer(rest)
    case RelayOptions.command: return runRelay(rest)
    case PlotCommand.name: return runPlot(rest)
    case PartCommand.name: return PartCommand.run(rest)
    case GuardCommand.name: return GuardCommand.run(rest)
    default: return runBench(arguments)
    }
}
