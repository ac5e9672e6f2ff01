import Glibc

Output.keepDescriptors()
// Whoever reads our output may leave; that is an error of a write, not our end.
signal(SIGPIPE, SIG_IGN)
// So is a file that may not grow any more (RLIMIT_FSIZE): the log counts the lines it lost.
signal(SIGXFSZ, SIG_IGN)
exit(Output.ending(Command.dispatch(Array(CommandLine.arguments.dropFirst()))).rawValue)
