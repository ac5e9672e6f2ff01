import CLinux
import Glibc
import Kafka

/// A shell command that runs with bytes as its standard input.
struct ShellCommand: ~Copyable {
    enum Ending: Equatable, CustomStringConvertible {
        case exited(Int32)
        case killed(Int32)

        var description: String {
            switch self {
            case .exited(let status): "exited with \(status)"
            case .killed(let signal): "was killed by signal \(signal)"
            }
        }
    }

    /// How long it may take to end when it is asked to.
    static let grace = Duration.seconds(5)

    private let processID: pid_t

    /// Starts `/bin/sh -c text`; it shares standard output and error.
    ///
    /// The input is a file in memory, so that a command that reads slowly, or not at all, does not block.
    init(_ text: String, input: [UInt8]) throws(CommandFailure) {
        let file = linux_memory_file("batch")
        defer { if file >= 0 { close(file) } }
        var written = 0
        while file >= 0, written < input.count {
            let count = input[written...].withUnsafeBytes { write(file, $0.baseAddress, $0.count) }
            guard count > 0 else { break }
            written += count
        }
        guard file >= 0, written == input.count, lseek(file, 0, SEEK_SET) == 0 else {
            throw CommandFailure("there is no memory for the command's input: \(String(cString: strerror(errno)))")
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Signals that we hold back or ignore are not the command's business.
        var none = sigset_t()
        sigemptyset(&none)
        var ignored = sigset_t()
        sigemptyset(&ignored)
        for signal in [SIGPIPE, SIGXFSZ] { sigaddset(&ignored, signal) }
        // A group of its own, so that what the shell started ends with it, and a terminal's Ctrl-C is ours alone.
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &ignored)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
        var processID: pid_t = 0
        let arguments: [String] = ["sh", "-c", text]
        let words: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for word in words { free(word) } }
        let code = posix_spawn(&processID, "/bin/sh", &actions, &attributes, words, linux_environment())
        guard code == 0 else { throw CommandFailure("/bin/sh cannot be started: \(String(cString: strerror(code)))") }
        self.processID = processID
    }

    /// How it ended; `nil`: it runs.
    func ending() -> Ending? {
        var status: Int32 = 0
        guard waitpid(processID, &status, WNOHANG) == processID else { return nil }
        // wait(2): the low seven bits are the signal, the next eight the exit status.
        return status & 0x7F == 0 ? .exited(status >> 8 & 0xFF) : .killed(status & 0x7F)
    }

    /// Asks it, and what it started, to end.
    func terminate() { kill(-processID, SIGTERM) }

    /// Ends them.
    func end() { kill(-processID, SIGKILL) }
}
