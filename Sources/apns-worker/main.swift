import Glibc

// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
exit(Command.dispatch(Array(CommandLine.arguments.dropFirst())).rawValue)
