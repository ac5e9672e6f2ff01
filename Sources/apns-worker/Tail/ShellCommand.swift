import CLinux
import EventLoop
import Glibc
import Kafka

/// A shell command whose standard input is given as bytes.
struct ShellCommand: ~Copyable {
    /// The time that the command has to end after SIGTERM.
    static let grace = Duration.seconds(5)

    private let processID: pid_t

    /// Starts `/bin/sh -c text`, which shares this process's standard output and error.
    ///
    /// The input is a file in memory, so that a command that reads slowly, or not at all, does not block this process.
    init(_ text: String, input: [UInt8]) throws(CommandFailure) {
        let file = linux_memory_file("batch")
        defer { if file >= 0 { close(file) } }
        // A short write means that there is not enough memory.
        guard file >= 0, write(file, input, input.count) == input.count, lseek(file, 0, SEEK_SET) == 0 else {
            throw CommandFailure("cannot store the command's input in memory: \(String(cString: strerror(errno)))")
        }
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, file, STDIN_FILENO)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The command must not inherit the signal mask and the ignored signals of this process.
        var (none, ignored) = (Signals.set([]), Signals.set([SIGPIPE, SIGXFSZ]))
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &ignored)
        // The command runs in a separate process group, so that signals reach the shell's children as well, and Ctrl-C
        // in a terminal does not reach the command.
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP))
        var processID: pid_t = 0
        let words = ["sh", "-c", text].map { (word: String) in strdup(word) } + [nil]
        defer { for word in words { free(word) } }
        let code = posix_spawn(&processID, "/bin/sh", &actions, &attributes, words, linux_environment())
        guard code == 0 else { throw CommandFailure("/bin/sh cannot be started: \(String(cString: strerror(code)))") }
        self.processID = processID
    }

    /// Reaps orphans of earlier commands, which become children of this process if it is PID 1 of a container. Call
    /// this method while no command runs.
    static func reapOrphans() {
        while waitpid(-1, nil, WNOHANG) > 0 {}
    }

    /// Returns the status of wait(2), or `nil` while the command runs.
    func status() -> Int32? {
        var status: Int32 = 0
        return waitpid(processID, &status, WNOHANG) == processID ? status : nil
    }

    func send(_ signal: Int32) { kill(-processID, signal) }
}
