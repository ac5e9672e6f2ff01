import Glibc

keepDescriptors()
// If the reader of a pipe closes it, the write fails with EPIPE instead of ending the process.
signal(SIGPIPE, SIG_IGN)
// A write to a file at its size limit (RLIMIT_FSIZE) also fails instead of ending the process. The logger counts lost
// lines.
signal(SIGXFSZ, SIG_IGN)
exit(ending(Command.dispatch(Array(CommandLine.arguments.dropFirst()))).rawValue)
