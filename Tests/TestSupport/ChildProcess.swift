package import Foundation
import Glibc
import Synchronization

/// A child process with captured output. The kernel kills it when the test process ends.
package final class ChildProcess: @unchecked Sendable {
    package enum Failure: Error, CustomStringConvertible {
        /// Contains the whole output.
        case timedOut(waitingFor: String, output: String)

        package var description: String {
            switch self {
            case .timedOut(let what, let output): "timed out waiting for \(what); output:\n\(output)"
            }
        }
    }

    package enum Ending: Equatable, Sendable {
        case exited(Int32)
        case signalled(Int32)
    }

    /// The maximum duration of a wait, in seconds. It is generous because it only limits a failing test, and a passing
    /// test must not fail on a busy machine.
    package static let patience = 180.0

    package private(set) var processID: pid_t = 0
    private let state = NSCondition()
    private var output: [UInt8] = []
    private var ending: Ending?
    private var isOutputOpen = true
    private let input: Mutex<Int32>

    /// Starts a program found in PATH, with additions to the test's environment. Captures standard output and error.
    /// Standard input is a pipe.
    package init(_ program: String, _ arguments: [String] = [], environment: [String: String] = [:]) throws {
        // The read and write ends of each pipe, closed in other children (FD_CLOEXEC).
        let inPipe = Self.pipe()
        let outPipe = Self.pipe()
        input = Mutex(inPipe.1)
        let variables = ProcessInfo.processInfo.environment.merging(environment) { $1 }.map { "\($0)=\($1)" }
        // With setpriv (util-linux), the kernel kills the child when the thread that started it ends.
        let words = ["setpriv", "--pdeathsig", "KILL", "--", program] + arguments
        let started = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            self.processID = Self.start(words, variables, standardInput: inPipe.0, standardOutput: outPipe.1)
            started.signal()
            self.reap()
        }
        started.wait()
        close(inPipe.0)
        close(outPipe.1)
        Thread.detachNewThread { self.gather(outPipe.0) }
    }

    /// What a program printed, and how it ended.
    package struct Finished {
        package var ending: Ending
        package var text: String
    }

    /// Runs a program to its end. If it takes too long, throws an error with its output.
    @discardableResult
    package static func run(
        _ program: String, _ arguments: [String] = [], input: String = "", environment: [String: String] = [:],
        within seconds: Double = ChildProcess.patience
    ) throws -> Finished {
        let process = try ChildProcess(program, arguments, environment: environment)
        process.write(input)
        process.closeInput()
        return Finished(ending: try process.wait(seconds: seconds), text: process.text)
    }

    deinit { closeInput() }

    private static func pipe() -> (Int32, Int32) {
        var ends: [Int32] = [-1, -1]
        precondition(Glibc.pipe(&ends) == 0, "no pipe: \(String(cString: strerror(errno)))")
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        return (ends[0], ends[1])
    }

    // MARK: Input and output

    /// The output so far.
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
            isOutputOpen = false
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

    package func closeInput() {
        input.withLock {
            if $0 >= 0 { close($0) }
            $0 = -1
        }
    }

    /// Waits until the output contains `text`, and returns the whole output. Throws if the process ends without it.
    @discardableResult
    package func waitFor(_ text: String, seconds: Double = ChildProcess.patience) throws -> String {
        try wait(for: "“\(text)”", seconds: seconds) {
            let output = String(decoding: self.output, as: UTF8.self)
            if output.contains(text) { return output }
            if self.ending != nil, !self.isOutputOpen {
                throw Failure.timedOut(waitingFor: "“\(text)”, and it ended (\(self.ending!))", output: output)
            }
            return nil
        }
    }

    // MARK: The end

    /// How the process ended, or `nil` while it runs.
    package var ended: Ending? { state.withLock { ending } }

    package func signal(_ number: Int32) { if ended == nil { kill(processID, number) } }

    /// Waits for the process to end and for all of its output.
    @discardableResult
    package func wait(seconds: Double = ChildProcess.patience) throws -> Ending {
        try wait(for: "its end", seconds: seconds) { self.isOutputOpen ? nil : self.ending }
    }

    /// Stops the process with SIGTERM, then SIGKILL. Returns how it ended.
    @discardableResult
    package func stop(seconds: Double = ChildProcess.patience) throws -> Ending {
        signal(SIGTERM)
        if let ending = try? wait(seconds: seconds) { return ending }
        signal(SIGKILL)
        return try wait()
    }

    /// Kills the process (SIGKILL), and waits until it and a worker that it supervises have ended.
    package func killNow() throws {
        let isSupervisor = (try? workerID).map { $0 != processID } ?? false
        signal(SIGKILL)
        // A worker dies shortly after its supervisor, and closes the output then.
        try wait(for: "its end", seconds: Self.patience) { isSupervisor && self.isOutputOpen ? nil : self.ending }
    }

    /// The id of the process that does the work: the child of the supervisor for `apns-worker run`, otherwise the
    /// process itself.
    package var workerID: pid_t {
        get throws {
            let children = try String(contentsOfFile: "/proc/\(processID)/task/\(processID)/children", encoding: .utf8)
            return children.split(separator: " ").compactMap { pid_t($0) }.first {
                (try? String(contentsOfFile: "/proc/\($0)/comm", encoding: .utf8)) == "apns-worker\n"
            } ?? processID
        }
    }

    /// The peak resident memory of the working process so far, in KiB (proc(5), VmHWM).
    package var peakKilobytes: Int {
        get throws {
            let status = try String(contentsOfFile: "/proc/\(workerID)/status", encoding: .utf8)
            guard let match = status.firstMatch(of: /VmHWM:\s+(\d+)/), let value = Int(match.1) else {
                throw Failure.timedOut(waitingFor: "VmHWM", output: status)
            }
            return value
        }
    }

    private func reap() {
        var status: Int32 = 0
        while waitpid(processID, &status, 0) < 0, errno == EINTR {}
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

    private static func start(
        _ words: [String], _ environment: [String], standardInput: Int32, standardOutput: Int32
    ) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (from, to) in [(standardInput, 0), (standardOutput, 1), (standardOutput, 2)] as [(Int32, Int32)] {
            posix_spawn_file_actions_adddup2(&actions, from, to)
        }
        // A test runner may have blocked or ignored signals. Start the child with the defaults.
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        var (none, all) = (sigset_t(), sigset_t())
        sigemptyset(&none)
        sigfillset(&all)
        posix_spawnattr_setsigmask(&attributes, &none)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF))
        var processID: pid_t = 0
        var arguments = words.map { strdup($0) } + [nil]
        var variables = environment.map { strdup($0) } + [nil]
        defer { for text in arguments + variables { free(text) } }
        let error = posix_spawnp(&processID, words[0], &actions, &attributes, &arguments, &variables)
        precondition(error == 0, "\(words[0]) cannot be started: \(String(cString: strerror(error)))")
        return processID
    }
}
