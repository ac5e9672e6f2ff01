internal import CLinux
internal import EventLoop
internal import Glibc

/// The process that starts the worker as its child, and restarts the worker after a fatal signal, including one from
/// the kernel's OOM killer, and when the worker requests it. The supervisor does little else, to keep its own risk of
/// failure low.
///
/// The supervisor's only thread blocks signals and receives them with sigtimedwait(2). As process 1 of a container, the
/// supervisor also reaps orphans.
package struct Supervisor: ~Copyable {
    package enum Role {
        case supervisor, worker
        /// A worker without a supervisor (`crash: core`).
        case alone
    }

    private static let variable = "APNS_WORKER_PAGE"
    private static let alone = "none"
    /// The exit code of a worker that the supervisor must start again.
    package static let restartCode: Int32 = 85

    private let complain: (String) -> Void
    private var stops = 0
    private var child: pid_t = 0

    package init(complain: @escaping (String) -> Void) { self.complain = complain }

    // MARK: Worker

    /// Returns whether this process is the supervisor, its worker, or a worker without a supervisor. In a worker with a
    /// supervisor, also maps the shared page. Call it on the main thread, before other threads are started.
    package static func role() -> Role {
        guard let value = getenv(variable).map({ String(cString: $0) }) else { return .supervisor }
        unsetenv(variable)
        guard value != alone else { return .alone }
        // The supervisor starts /proc/self/exe, so the process would otherwise be named `exe`.
        linux_name_thread("apns-worker")
        guard let descriptor = Int32(value), crash_page_adopt(descriptor) == 0 else { _exit(1) }
        crash_enter_thread(0)
        // Until the worker handles signals, SIGTERM and SIGINT end it immediately. Nothing is lost, because no work has
        // begun. SIGHUP stays blocked.
        var stops = Signals.set([SIGTERM, SIGINT])
        pthread_sigmask(SIG_UNBLOCK, &stops, nil)
        return .worker
    }

    /// Ends this process and makes the supervisor replace itself with a worker, which then runs without a supervisor.
    package static func leave() -> Never {
        crash_run_alone()
        _exit(0)
    }

    // MARK: Supervisor

    private enum Ending {
        case exited(Int32)
        case died(signal: Int32)
        /// A second stop signal arrived, and the supervisor killed the child.
        case stopped(signal: Int32)
    }

    package consuming func run() -> Int32 {
        Signals.block([SIGHUP, SIGINT, SIGTERM, SIGCHLD])
        let descriptor = crash_page_make()
        guard descriptor >= 0 else {
            complain("cannot create a page of shared memory: \(SystemError(call: "memfd_create", code: errno))")
            return 1
        }
        setenv(Self.variable, "\(descriptor)", 1)
        var backoff = RestartBackoff()
        while true {
            let startedMs = Self.nowMs
            let ending: Ending
            let code = spawn()
            if code == 0 {
                ending = waitForEnd()
            } else {
                complain("cannot start the worker: \(SystemError(call: "posix_spawn", code: code))")
                ending = .died(signal: 0)
            }
            switch ending {
            case .exited(Self.restartCode):
                if stops > 0 { return 0 }
            case .exited(let code):
                guard crash_is_alone() != 0, stops == 0 else { return code }
                return becomeWorker()
            case .stopped(let signal):
                return 128 + signal
            case .died(SIGTERM), .died(SIGINT):
                complain("stopped before the worker had started")
                return 0
            case .died(let signal):
                let delayMs = backoff.delayMs(livedMs: Self.nowMs - startedMs)
                if signal > 0 { tell(signal, delayMs) }
                guard stops == 0 else { return 1 }
                guard pause(delayMs) else { return 0 }
            }
        }
    }

    private func tell(_ signal: Int32, _ delayMs: Int64) {
        crash_add_death(signal)
        guard let death = CrashHistory.ofPage.deaths.last else { return }
        let place = death.places.isEmpty ? "; no record is known as the cause" : " at record \(death.record)"
        let next =
            stops > 0
            ? "the worker was already stopping" : "starting it again" + (delayMs > 0 ? " in \(delayMs / 1_000) s" : "")
        complain("the worker died of \(death.signalName)\(place); \(next)")
    }

    private mutating func spawn() -> Int32 {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // A shell starts background jobs with SIGINT ignored, and the child would inherit the ignored signal.
        var stops = Signals.set([SIGTERM, SIGINT]), blocked = Signals.set([SIGHUP])
        posix_spawnattr_setsigdefault(&attributes, &stops)
        posix_spawnattr_setsigmask(&attributes, &blocked)
        posix_spawnattr_setflags(&attributes, Int16(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK))
        return posix_spawn(
            &child, "/proc/self/exe", nil, &attributes, CommandLine.unsafeArgv, linux_environment())
    }

    private mutating func waitForEnd() -> Ending {
        while true {
            switch Self.nextSignal() {
            case SIGCHLD:
                if let ending = reap() { return ending }
            case SIGHUP:
                kill(child, SIGHUP)
            case let signal? where stops > 0:
                // The second stop signal kills the worker. Only the supervisor counts stop signals, because Ctrl-C and
                // service managers signal both processes.
                kill(child, SIGKILL)
                waitpid(child, nil, 0)
                return .stopped(signal: signal)
            case let signal?:
                stops += 1
                kill(child, signal)
            case nil: break
            }
        }
    }

    /// Reaps all ended children, including orphans, and returns how the worker ended, or `nil` if it still runs.
    private func reap() -> Ending? {
        var ending: Ending?
        var status: Int32 = 0
        while case let process = waitpid(-1, &status, WNOHANG), process > 0 {
            guard process == child else { continue }
            let signal = status & 0x7f
            ending = signal == 0 ? .exited((status >> 8) & 0xff) : .died(signal: signal)
        }
        return ending
    }

    /// Waits before the worker's next start. Returns false if a stop signal arrives.
    private mutating func pause(_ delayMs: Int64) -> Bool {
        let endMs = Self.nowMs + delayMs
        while case let restMs = endMs - Self.nowMs, restMs > 0 {
            switch Self.nextSignal(withinMs: restMs) {
            case SIGCHLD: _ = reap()
            case SIGTERM, SIGINT: return false
            default: break
            }
        }
        return true
    }

    /// Replaces this process with a worker that has no supervisor. Pending signals stay pending.
    private func becomeWorker() -> Int32 {
        setenv(Self.variable, Self.alone, 1)
        execve("/proc/self/exe", CommandLine.unsafeArgv, linux_environment())
        complain("cannot start the worker: \(SystemError(call: "execve", code: errno))")
        return 1
    }

    // MARK: Parts

    private static func nextSignal(withinMs milliseconds: Int64 = 3_600_000) -> Int32? {
        var set = Signals.set([SIGHUP, SIGINT, SIGTERM, SIGCHLD])
        var time = timespec(tv_sec: Int(milliseconds / 1_000), tv_nsec: Int(milliseconds % 1_000) * 1_000_000)
        let signal = sigtimedwait(&set, nil, &time)
        return signal > 0 ? signal : nil
    }

    private static var nowMs: Int64 { LoopTime.read().monotonicNs / 1_000_000 }
}

struct RestartBackoff {
    /// The run time in milliseconds after which a crash resets the delay before restarts.
    static let soundMs: Int64 = 60_000

    private var pause = GrowingPause()

    /// Returns the delay before a restart: 0 after the first crash, and longer after each crash within `soundMs` of the
    /// worker's start.
    mutating func delayMs(livedMs: Int64) -> Int64 {
        if livedMs >= Self.soundMs { pause = GrowingPause() }
        defer { pause.begin(0) }
        return pause.lengthNs / 1_000_000
    }
}
