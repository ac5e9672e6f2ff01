import Glibc

Output.keepDescriptors()
// A reader of a pipe may close it: the write fails, and the process goes on.
signal(SIGPIPE, SIG_IGN)
// The same for a file that may not grow any more (RLIMIT_FSIZE): the log counts the lines it lost.
signal(SIGXFSZ, SIG_IGN)
exit(Output.ending(Command.dispatch(Array(CommandLine.arguments.dropFirst()))).rawValue)
