package import Foundation
import Glibc
import Synchronization

/// A process that a test starts, whose output it can wait for; killed when the test process ends, however it ends.
package final class ChildProcess: @unchecked Sendable {
    package enum Failure: Error, CustomStringConvertible {
        case notStarted(String, errno: Int32)
        /// The process did not say or do what was waited for in time; with all that it said.
        case timedOut(waitingFor: String, output: String)

        package var description: String {
            switch self {
            case .notStarted(let path, let errno): "\(path): \(String(cString: strerror(errno)))"
            case .timedOut(let what, let output): "timed out waiting for \(what); output:\n\(output)"
            }
        }
    }

    /// How a process ended.
    package enum Ending: Equatable, Sendable {
        case exited(Int32)
        case signalled(Int32)
    }

    /// How long a wait may take, in seconds. It only decides how long a broken test hangs: on a busy machine a sound
    /// one must not fail by it.
    package static let patience = 180.0

    package let processID: pid_t
    private let state = NSCondition()
    private var output: [UInt8] = []
    private var ending: Ending?
    private var openPipes = 0
    private let input: Mutex<Int32>

    /// Starts a program found in PATH, with the environment given in addition to our own. Standard output and error are
    /// gathered; standard input is a pipe.
    package init(_ program: String, _ arguments: [String] = [], environment: [String: String] = [:]) throws {
        // A pipe's ends: 0 to read, 1 to write; closed in other children (FD_CLOEXEC).
        let inPipe = Self.pipe()
        let outPipe = Self.pipe()
        var words = [program] + arguments
        // The kernel kills the child when the thread that spawned it ends: hence the spawner's own immortal thread.
        if Self.setpriv != nil { words = [Self.setpriv!, "--pdeathsig", "KILL", "--"] + words }
        let merged = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let result = Spawner.shared.spawn(
            words, merged.map { "\($0)=\($1)" }, standardInput: inPipe.0, standardOutput: outPipe.1)
        close(inPipe.0)
        close(outPipe.1)
        guard case .success(let processID) = result else {
            close(inPipe.1)
            close(outPipe.0)
            guard case .failure(let failure) = result else { fatalError("neither started nor failed") }
            throw Failure.notStarted(program, errno: failure.errno)
        }
        self.processID = processID
        input = Mutex(inPipe.1)
        Self.living.withLock { _ = $0.insert(processID) }
        Self.killAtExit
        openPipes = 1
        Thread.detachNewThread { self.gather(outPipe.0) }
        Thread.detachNewThread { self.reap() }
    }

    deinit {
        if ending == nil { kill(processID, SIGKILL) }
        closeInput()
    }

    private static func pipe() -> (Int32, Int32) {
        var ends: [Int32] = [-1, -1]
        precondition(Glibc.pipe(&ends) == 0, "no pipe: \(String(cString: strerror(errno)))")
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    private static let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].first { (path: String) in access(path, X_OK) == 0
    }

    // MARK: What the process says

    /// All that the process has written so far.
    package var text: String { state.withLock { String(decoding: output, as: UTF8.self) } }

    private func gather(_ descriptor: Int32) {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
            state.withLock {
                output.append(contentsOf: buffer[..<count])
                state.broadcast()
            }
        }
        close(descriptor)
        state.withLock {
            openPipes = 0
            state.broadcast()
        }
    }

    /// Writes to the process's standard input.
    package func write(_ text: String) {
        let descriptor = input.withLock { $0 }
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            bytes = bytes.dropFirst(count)
        }
    }

    /// Ends the process's standard input.
    package func closeInput() {
        input.withLock {
            if $0 >= 0 { close($0) }
            $0 = -1
        }
    }

    /// Waits until the output contains `text`, and returns the whole output; throws when the process ended without it.
    @discardableResult
    package func waitFor(_ text: String, seconds: Double = ChildProcess.patience) throws -> String {
        try wait(for: "“\(text)”", seconds: seconds) {
            let output = String(decoding: self.output, as: UTF8.self)
            if output.contains(text) { return output }
            if self.ending != nil, self.openPipes == 0 {
                throw Failure.timedOut(waitingFor: "“\(text)”, and it ended (\(self.ending!))", output: output)
            }
            return nil
        }
    }

    // MARK: How it ends

    /// `nil` while it runs.
    package var ended: Ending? { state.withLock { ending } }

    package func signal(_ number: Int32) { if ended == nil { kill(processID, number) } }

    /// Waits for the end and for all output.
    @discardableResult
    package func wait(seconds: Double = ChildProcess.patience) throws -> Ending {
        try wait(for: "its end", seconds: seconds) { self.openPipes == 0 ? self.ending : nil }
    }

    /// Asks it to end (SIGTERM), then kills it; returns how it ended.
    @discardableResult
    package func stop(seconds: Double = ChildProcess.patience) throws -> Ending {
        signal(SIGTERM)
        if let ending = try? wait(seconds: seconds) { return ending }
        signal(SIGKILL)
        return try wait()
    }

    /// Kills it (SIGKILL) and waits until it is gone, and with it a worker whose supervisor it is.
    package func killNow() throws {
        let isSupervisor = (try? workerID).map { $0 != processID } ?? false
        signal(SIGKILL)
        // A worker dies a moment after its supervisor, and its end of the pipe closes with it.
        try wait(for: "its end", seconds: Self.patience) { isSupervisor && self.openPipes > 0 ? nil : self.ending }
    }

    /// The process that does the work: of `apns-worker run` the supervisor's child, of other programs the process
    /// itself.
    package var workerID: pid_t {
        get throws {
            let children = try String(
                contentsOfFile: "/proc/\(processID)/task/\(processID)/children", encoding: .utf8)
            for child in children.split(separator: " ").compactMap({ pid_t($0) }) {
                let name = try? String(contentsOfFile: "/proc/\(child)/comm", encoding: .utf8)
                if name == "apns-worker\n" { return child }
            }
            return processID
        }
    }

    private func reap() {
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0, errno == EINTR {}
        Self.living.withLock { _ = $0.remove(processID) }
        state.withLock {
            ending = status & 0x7f == 0 ? .exited((status >> 8) & 0xff) : .signalled(status & 0x7f)
            state.broadcast()
        }
    }

    @discardableResult
    private func wait<Value>(for what: String, seconds: Double, _ condition: () throws -> Value?) throws -> Value {
        let deadline = Date(timeIntervalSinceNow: seconds)
        state.lock()
        defer { state.unlock() }
        while true {
            if let value = try condition() { return value }
            guard state.wait(until: deadline) else {
                if let value = try condition() { return value }
                throw Failure.timedOut(waitingFor: what, output: String(decoding: output, as: UTF8.self))
            }
        }
    }

    // MARK: What it takes

    /// A figure of /proc/PID/status in KiB: `VmRSS`, the resident memory now, or `VmHWM`, the most so far (proc(5)).
    package func kilobytes(_ name: String) throws -> Int {
        let status = try String(contentsOfFile: "/proc/\(workerID)/status", encoding: .utf8)
        let line = status.split(separator: "\n").first { $0.hasPrefix("\(name):") }
        guard let value = line?.split(whereSeparator: \.isWhitespace).dropFirst().first.flatMap({ Int($0) }) else {
            throw Failure.timedOut(waitingFor: name, output: status)
        }
        return value
    }

    package func residentKilobytes() throws -> Int { try kilobytes("VmRSS") }

    package func largestResidentKilobytes() throws -> Int { try kilobytes("VmHWM") }

    // MARK: Nothing is left behind

    private static let living = Mutex<Set<pid_t>>([])

    private static let killAtExit: Void = {
        atexit { ChildProcess.living.withLock { for processID in $0 { kill(processID, SIGKILL) } } }
    }()
}

/// The thread that starts all child processes and never ends.
private final class Spawner: @unchecked Sendable {
    static let shared = Spawner()

    struct Failure: Error { let errno: Int32 }

    private let queue = NSCondition()
    private var waiting: [() -> Void] = []

    private init() {
        Thread.detachNewThread {
            while true {
                self.queue.lock()
                while self.waiting.isEmpty { self.queue.wait() }
                let next = self.waiting.removeFirst()
                self.queue.unlock()
                next()
            }
        }
    }

    func spawn(
        _ words: [String], _ environment: [String], standardInput: Int32, standardOutput: Int32
    ) -> Result<pid_t, Failure> {
        let done = DispatchSemaphore(value: 0)
        nonisolated(unsafe) var result: Result<pid_t, Failure> = .failure(Failure(errno: 0))
        queue.withLock {
            waiting.append {
                result = Self.start(words, environment, standardInput, standardOutput)
                done.signal()
            }
            queue.signal()
        }
        done.wait()
        return result
    }

    private static func start(
        _ words: [String], _ environment: [String], _ standardInput: Int32, _ standardOutput: Int32
    ) -> Result<pid_t, Failure> {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_adddup2(&actions, standardInput, 0)
        posix_spawn_file_actions_adddup2(&actions, standardOutput, 1)
        posix_spawn_file_actions_adddup2(&actions, standardOutput, 2)
        // A test runner may have blocked or ignored signals; the child starts with all as usual.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var none = sigset_t()
        sigemptyset(&none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var processID: pid_t = 0
        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup($0) } + [nil]
        defer {
            for text in arguments { free(text) }
            for text in variables { free(text) }
        }
        let error = posix_spawnp(&processID, words[0], &actions, &attributes, &arguments, &variables)
        return error == 0 ? .success(processID) : .failure(Failure(errno: error))
    }
}
