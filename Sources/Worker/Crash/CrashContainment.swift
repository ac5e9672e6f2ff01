internal import CLinux
internal import Glibc

/// What keeps a death from taking the process, and its record, along (`crash.h`).
package enum CrashContainment {
    /// What the processes before this one left.
    package static var history: CrashHistory {
        CrashHistory(text: getenv(CrashHistory.variable).map { String(cString: $0) })
    }

    /// `CLOCK_MONOTONIC`, by which deaths are told apart; it goes on from one program to the next.
    package static var nowMs: Int64 {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    /// What the next one is told instead, where deaths are contained. Any thread.
    package static func change(_ history: CrashHistory) {
        crash_remember("\(CrashHistory.variable)=\(history.text)")
    }

    /// From now on a death replaces the process by itself. Once, on the main thread, before other threads are started.
    ///
    /// - Parameters:
    ///   - history: what there was before; the next one is told.
    ///   - name: what the line that tells of a death begins with.
    /// - Returns: false where a sanitizer watches instead.
    @discardableResult
    package static func begin(_ history: CrashHistory, name: String) -> Bool {
        // Else `exe`, as what it was started from is called (/proc/self/exe).
        if history.total > 0 { linux_name_thread("apns-worker") }
        let arguments = UnsafeRawPointer(CommandLine.unsafeArgv).assumingMemoryBound(to: UnsafePointer<CChar>?.self)
        return crash_contain(arguments, "\(CrashHistory.variable)=\(history.text)", name) == 1
    }
}
