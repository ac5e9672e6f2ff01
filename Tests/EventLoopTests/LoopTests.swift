import Foundation
import Synchronization
import Testing

@testable import EventLoop

@Suite struct LoopTests {
    @Test func `A readable descriptor is reported until it is read`() throws {
        let loop = try Loop()
        let pipe = Pipe()
        let reading = pipe.fileHandleForReading.fileDescriptor
        var seen: [Readiness] = []
        let registration = try loop.register(reading, for: .readable) { seen.append($0) }
        loop.runOnce()
        #expect(seen.isEmpty)
        pipe.fileHandleForWriting.write(Data([1, 2, 3]))
        loop.runOnce(timeoutNs: 1_000_000_000)
        loop.runOnce(timeoutNs: 1_000_000_000)
        #expect(seen == [.readable, .readable])
        loop.update(registration, for: [])
        loop.runOnce()
        #expect(seen.count == 2)
        loop.update(registration, for: .readable)
        loop.runOnce()
        #expect(seen.count == 3)
        loop.unregister(registration)
        loop.runOnce()
        #expect(seen.count == 3)
    }

    @Test func `A descriptor that is unregistered during a turn receives no event of that turn`() throws {
        let loop = try Loop()
        let pipes = [Pipe(), Pipe()]
        var registrations: [Registration] = []
        var heard = 0
        for pipe in pipes {
            pipe.fileHandleForWriting.write(Data([1]))
            registrations.append(
                try loop.register(pipe.fileHandleForReading.fileDescriptor, for: .readable) { _ in
                    heard += 1
                    for registration in registrations { loop.unregister(registration) }
                })
        }
        loop.runOnce(timeoutNs: 1_000_000_000)
        #expect(heard == 1)
    }

    @Test func `A closed descriptor cannot be registered`() throws {
        let loop = try Loop()
        #expect(throws: SystemError(call: "epoll_ctl", code: EBADF)) {
            _ = try loop.register(9_999, for: .readable) { _ in }
        }
        #expect("\(SystemError(call: "bind", code: EADDRINUSE))" == "bind: Address already in use (EADDRINUSE)")
    }

    @Test func `Turn-end callbacks run after everything else in the turn`() throws {
        let loop = try Loop()
        nonisolated(unsafe) var trace: [String] = []
        loop.onTurnEnd { trace.append("first") }
        loop.onTurnEnd { trace.append("second") }
        let ender = Ender { trace.append("ender") }
        loop.schedule(afterNs: 0) {
            loop.atTurnEnd(ender)
            trace.append("timer")
        }
        loop.perform { trace.append("performed") }
        loop.runOnce()
        #expect(trace == ["performed", "timer", "first", "second", "ender"])
        loop.runOnce()
        #expect(trace.count == 7)
    }

    @Test func `A turn ender that requests another call is called again in the same turn`() throws {
        let loop = try Loop()
        var calls = 0
        var ender: Ender?
        ender = Ender {
            calls += 1
            if calls < 3 { loop.atTurnEnd(ender!) }
        }
        loop.atTurnEnd(ender!)
        loop.runOnce(timeoutNs: 10_000_000_000)
        #expect(calls == 3)
        ender = nil
    }

    @Test func `A closure passed to perform runs on the loop's thread`() throws {
        let thread = try LoopThread(name: "a name longer than fifteen")
        let isThere = Mutex<[Bool]>([])
        let done = DispatchSemaphore(value: 0)
        thread.loop.perform {
            isThere.withLock { $0.append(thread.loop.isOnThread) }
            done.signal()
        }
        #expect(done.wait(timeout: .now() + 180) == .success)
        #expect(isThere.withLock { $0 } == [true])
        #expect(!thread.loop.isOnThread)
        thread.stop()
        thread.join()
    }

    private final class Ender: TurnEnder {
        let body: () -> Void
        init(_ body: @escaping () -> Void) { self.body = body }
        func turnEnded() { body() }
    }
}

@Suite struct SignalTests {
    /// An end-to-end test shows that a second stop signal ends the process.
    @Test func `Signals arrive as events, in order`() throws {
        let loop = try Loop()
        var seen: [Int32] = []
        let signals = try Signals([SIGUSR1, SIGUSR2], stopping: [SIGUSR2], loop: loop) { seen.append($0) }
        // The signals go to one thread, because the other threads of the test runner do not block them.
        for signal in [SIGUSR1, SIGUSR2, SIGUSR1] {
            let count = seen.count
            pthread_kill(signals.thread, signal)
            let deadline = Date(timeIntervalSinceNow: 180)
            while seen.count == count, Date() < deadline { loop.runOnce(timeoutNs: 1_000_000_000) }
        }
        #expect(seen == [SIGUSR1, SIGUSR2, SIGUSR1])
    }
}
