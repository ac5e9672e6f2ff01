import Glibc

exit(Command.dispatch(Array(CommandLine.arguments.dropFirst())).rawValue)
