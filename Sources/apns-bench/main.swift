import Glibc

// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
exit(run(Array(CommandLine.arguments.dropFirst())))

private func run(_ arguments: [String]) -> Int32 {
    switch arguments.first {
    // The Kafka floor is measured in a process of its own, which is this program again.
    case KafkaFloorOptions.command: runKafkaFloor(Array(arguments.dropFirst()))
    case PartCommand.name: PartCommand.run(Array(arguments.dropFirst()))
    case GuardCommand.name: GuardCommand.run(Array(arguments.dropFirst()))
    default: runBench(arguments)
    }
}
