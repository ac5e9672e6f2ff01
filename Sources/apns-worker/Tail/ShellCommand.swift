import CLinux
import Glibc

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

    /// Starts `/bin/sh -c text`; standard output and error are ours.
    ///
    /// The input is a file without a name: whoever reads slowly, or not at all, holds nobody up.
    init(_ text: String, input: [UInt8]) throws(CommandFailure) {
        guard let file = tmpfile() else { throw CommandFailure("no temporary file: \(lastError)") }
        defer { fclose(file) }
        guard fwrite(input, 1, input.count, file) == input.count, fflush(file) == 0 else {
            throw CommandFailure("the temporary file for the command's input cannot be written: \(lastError)")
        }
        rewind(file)
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, fileno(file), STDIN_FILENO)
        posix_spawn_file_actions_addclose(&actions, fileno(file))
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

private var lastError: String { String(cString: strerror(errno)) }
