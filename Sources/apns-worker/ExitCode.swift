/// How the process ends; 64 and 78 as in sysexits.h.
enum ExitCode: Int32 {
    case fine = 0
    case failed = 1
    case wrongUsage = 64
    case wrongConfiguration = 78
}
