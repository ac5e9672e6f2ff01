import Glibc

// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
let arguments = Array(CommandLine.arguments.dropFirst())
let rest = Array(arguments.dropFirst())
// Floors, servers and relay have a process of their own, which is this program again.
switch arguments.first {
case KafkaFloorOptions.command: exit(runKafkaFloor(rest))
case SendFloorOptions.command: exit(runSendFloor(rest))
case ProbeServerOptions.command: exit(runProbeServer(rest))
case RelayOptions.command: exit(runRelay(rest))
case PlotOptions.command: exit(runPlot(rest))
default: exit(runBench(arguments))
}
