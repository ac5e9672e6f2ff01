import Glibc

// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
// The Kafka floor is measured in a process of its own, which is this program again.
exit(
    CommandLine.arguments.dropFirst().first == KafkaFloorOptions.command
        ? runKafkaFloor(Array(CommandLine.arguments.dropFirst(2)))
        : runBench(Array(CommandLine.arguments.dropFirst())))
